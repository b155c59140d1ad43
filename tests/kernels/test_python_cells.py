"""Cells of Python: what a notebook promises, with IPython (image data) and without it (image python39, Python 3.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly.boundaries.gvisor import GvisorBoundary
from tests.kernels.conftest import open_room
from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["data", "python39"])
async def python(request: pytest.FixtureRequest, gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Room]:
    async with open_room(gvisor, agents, request.param) as opened:
        yield opened


async def test_state_persists_over_runs(python: Room) -> None:
    await python.run("x = 20\ndef double(n): return 2 * n")
    assert await python.value("double(x) + 2") == "42"


async def test_the_last_expression_is_the_main_result(python: Room) -> None:
    done = await python.run("1\n'two'\n[3]")
    assert done.results == [({"text/plain": "[3]"}, True)]


@pytest.mark.parametrize("code", ["x = 1", "None", "7;", "7 ; # quiet", "for i in range(3): i", "", "# only a comment"])
async def test_statements_none_and_a_final_semicolon_show_nothing(python: Room, code: str) -> None:
    done = await python.run(code)
    assert (done.status, done.results) == ("ok", [])


async def test_a_semicolon_inside_of_the_last_expression_silences_nothing(python: Room) -> None:
    assert await python.value("'a;'") == "'a;'"


async def test_an_underscore_is_the_last_value_shown(python: Room) -> None:
    await python.run("6 * 7")
    assert await python.value("_ + 1") == "43"


async def test_an_underscore_of_the_users_own_is_left_alone(python: Room) -> None:
    await python.run("_ = 'mine'", context="underscore")
    await python.run("1 + 1", context="underscore")
    assert await python.value("_", context="underscore") == "'mine'"


async def test_await_works_at_the_top_level_and_loops_are_one(python: Room) -> None:
    await python.run("import asyncio\nlock = asyncio.Lock()\nawait lock.acquire()")
    assert await python.value("await asyncio.sleep(0)\nlock.release()\nlock.locked()") == "False"


async def test_asyncio_run_works_too(python: Room) -> None:
    assert await python.value("import asyncio\nasync def f(): return 5\nasyncio.run(f())") == "5"


async def test_a_future_import_holds_for_later_cells(python: Room) -> None:
    await python.run("from __future__ import annotations", context="future")
    assert await python.value("def f(x: Nowhere): pass\nf.__annotations__['x']", context="future") == "'Nowhere'"


async def test_output_goes_to_its_stream_in_order(python: Room) -> None:
    done = await python.run(
        "import sys, os\nprint('a')\nos.system('echo b')\nprint('c', end='')\nprint('e', file=sys.stderr)"
    )
    assert (done.stdout, done.stderr) == ("a\nb\nc", "e\n")


async def test_odd_characters_are_printed_and_never_an_error(python: Room) -> None:
    done = await python.run(r"print('é \U0001f600 \udcff \x1b[31m')")
    assert done.stdout == "é \U0001f600 \\udcff \x1b[31m\n"


async def test_an_error_is_name_value_and_a_traceback_of_the_users_own_lines(python: Room) -> None:
    done = await python.run("def inner(d):\n    return d['k']\n\ninner({})")
    assert done.status == "error"
    assert (done.error["name"], done.error["value"]) == ("KeyError", "'k'")
    lines = done.error["traceback"].split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert "    return d['k']" in lines
    assert "    inner({})" in lines
    assert [line for line in lines if "File" in line] == [
        f'  File "<cell {done.count}>", line 4, in <module>',
        f'  File "<cell {done.count}>", line 2, in inner',
    ]
    assert "\x1b" not in done.error["traceback"]


async def test_a_syntax_error_points_to_the_place_and_runs_nothing(python: Room) -> None:
    done = await python.run("print('ran')\nif x\n  1")
    assert (done.status, done.error["name"], done.stdout) == ("error", "SyntaxError", "")
    assert "line 2" in done.error["traceback"]
    assert "During handling" not in done.error["traceback"]


async def test_causes_are_told(python: Room) -> None:
    done = await python.run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e")
    assert "ZeroDivisionError: division by zero" in done.error["traceback"]
    assert "direct cause" in done.error["traceback"]


async def test_endless_recursion_is_an_error_of_readable_length(python: Room) -> None:
    done = await python.run("def ping(): pong()\ndef pong(): ping()\nping()")
    assert done.error["name"] == "RecursionError"
    assert "frames left out" in done.error["traceback"]
    assert len(done.error["traceback"]) < 8000


async def test_the_source_of_a_cell_can_be_inspected(python: Room) -> None:
    await python.run("def greet():\n    return 'hi'")
    assert await python.value("import inspect\nprint(inspect.getsource(greet))\n1") == "1"


async def test_functions_of_cells_can_be_pickled_and_run_in_forked_processes(python: Room) -> None:
    code = (
        "import multiprocessing as mp\ndef square(n): return n * n\n"
        "with mp.get_context('fork').Pool(2) as pool: squares = pool.map(square, range(4))\nsquares"
    )
    assert await python.value(code) == "[0, 1, 4, 9]"


async def test_spawned_processes_find_the_installed_packages(python: Room) -> None:
    """The flags that the agent was started with are not handed on."""
    code = "import subprocess, sys\nsubprocess._args_from_interpreter_flags(), sys.flags.no_site, sys.flags.isolated"
    assert await python.value(code) == "([], 0, 0)"


@pytest.mark.parametrize(
    ("code", "exit_code", "status"),
    [
        ("import sys; sys.exit()", 0, "ok"),
        ("import sys; sys.exit(0)", 0, "ok"),
        ("exit()", 0, "ok"),
        ("import sys; sys.exit(3)", 3, "error"),
        ("import sys; sys.exit('sorry')", 1, "error"),
        ("raise SystemExit(256 + 2)", 2, "error"),
    ],
)
async def test_sys_exit_ends_the_cell_and_not_the_kernel(python: Room, code: str, exit_code: int, status: str) -> None:
    await python.run("still = 'here'")
    done = await python.run(code)
    assert (done.status, done.fields["exit_code"], done.fields["state_survived"]) == (status, exit_code, True)
    assert await python.value("still") == "'here'"


@pytest.mark.parametrize("call", ["input('name? ')", "__import__('getpass').getpass()"])
async def test_asking_for_input_fails_at_once_and_says_why(python: Room, call: str) -> None:
    done = await python.run(call)
    assert done.error["name"] == "EOFError"
    assert "nobody is at the keyboard" in done.error["value"]


async def test_stdin_is_empty(python: Room) -> None:
    assert await python.value("import sys; sys.stdin.read()") == "''"


async def test_nothing_of_the_agent_is_in_reach(python: Room) -> None:
    code = (
        "import sys, os\n"
        "[n for n in sys.modules if 'dayfly' in n], [p for p in sys.path if 'dayfly' in p], sys.argv, __name__,"
        " os.getuid(), os.getcwd()"
    )
    assert await python.value(code) == "([], [], [''], '__main__', 1000, '/home/user')"
    assert (await python.run("import dayfly")).error["name"] == "ModuleNotFoundError"


async def test_the_process_holds_no_descriptor_of_the_agents(python: Room) -> None:
    code = "import os\nsorted({os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{n}')})"
    kinds = await python.value(code, context="fresh")
    assert kinds == "['/dev/null', 'pipe', 'socket']"


async def test_a_bundle_may_be_shown_raw(python: Room) -> None:
    done = await python.run("display({'text/plain': 'p', 'application/json': {'a': [1, None]}}, raw=True)")
    assert done.results == [({"text/plain": "p", "application/json": {"a": [1, None]}}, False)]


async def test_objects_may_bring_representations_of_their_own(python: Room) -> None:
    code = (
        "class Chart:\n    def __repr__(self): return 'chart'\n    def _repr_html_(self): return '<b>c</b>'\n"
        "    def _repr_png_(self): return b'png'\nChart()"
    )
    done = await python.run(code)
    assert done.results == [({"text/plain": "chart", "text/html": "<b>c</b>", "image/png": "cG5n"}, True)]


async def test_what_is_shown_comes_after_what_was_printed_before_it(python: Room) -> None:
    done = await python.run("print('first'); display(1); print('second'); display(2)")
    assert done.stdout == "first\nsecond\n"
    assert [data["text/plain"] for data, _ in done.results] == ["1", "2"]


async def test_modules_of_the_working_directory_can_be_imported(python: Room) -> None:
    await python.run("open('mine.py', 'w').write('answer = 42')")
    assert await python.value("import mine; mine.answer") == "42"
