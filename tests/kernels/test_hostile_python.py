"""Code that breaks its own kernel hurts only itself, and the next run works."""

from __future__ import annotations

import pytest

from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize(
    "damage",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.stdout.detach()",
        "import os; os.close(1); os.close(2)",
        "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "import os; os.set_blocking(1, False)",
        "import sys; sys.stdin.close(); sys.stdin = None",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "import sys; sys.displayhook = sys.excepthook = None",
        "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "import sys; sys.path[:] = []; sys.argv = None",
        "import sys; sys.modules.clear()",
        "del __builtins__, __name__",
        "globals().clear()",
        "import threading; threading.current_thread = None",
        "import warnings; warnings.simplefilter('error')",
        "import gc; gc.disable(); import sys; sys.settrace(lambda *a: None); sys.setprofile(print)",
    ],
)
async def test_the_next_run_prints_and_shows_whatever_the_last_one_did(room: Room, damage: str) -> None:
    await room.run(damage, context="damaged")
    done = await room.run("print('out')\nimport os; os.write(2, b'err')\n6 * 7", context="damaged")
    assert (done.stdout.split("\n")[0], done.text) == ("out", "42"), done
    assert "err" in done.stderr
    await room.host.ask("context.remove", context="damaged")


@pytest.mark.parametrize("fd", [1, 2])
async def test_what_a_cell_makes_nonblocking_blocks_again_in_the_next(room: Room, fd: int) -> None:
    await room.run(f"import os; os.set_blocking({fd}, False)")
    assert await room.value(f"os.get_blocking({fd})") == "True"


async def test_a_pipe_whose_mark_is_gone_is_looked_after_all_the_same(room: Room) -> None:
    """Any program that prints there can take the mark off, and only the agent may put it on."""
    clear = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, 0)"
    assert await room.value("import fcntl, os; bool(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_NOATIME)") == "True"
    await room.run(clear)
    assert await room.value("bool(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_NOATIME)") == "False"
    await room.run("os.set_blocking(1, False)")
    assert await room.value("os.get_blocking(1)") == "True"
    await room.run("os.dup2(os.open('/dev/null', os.O_WRONLY), 1)")
    assert (await room.run("print('out')")).stdout == "out\n"


async def test_what_replaces_a_marked_pipe_is_seen(room: Room) -> None:
    """Also a file that is opened with the same flag."""
    done = await room.run("import os; os.dup2(os.open('aside', os.O_WRONLY | os.O_NOATIME | os.O_CREAT), 1)")
    assert done.status == "ok", done
    assert (await room.run("print('out')")).stdout == "out\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("def __repr__(self): raise ValueError('no')", "ok"),
        ("def __repr__(self): return 7", "ok"),
        ("def __repr__(self): raise SystemExit", "ok"),
        ("def __getattr__(self, name): raise BaseException('no')", "error"),
        ("def _repr_html_(self): return b'bytes'", "ok"),
        (
            "def _repr_mimebundle_(self, **k): return {7: 8, 'text/plain': ['not', 'text'], '\\n': '', 'a' * 300: ''}",
            "ok",
        ),
        ("def _repr_mimebundle_(self, **k): return {f'x-{n}/y': '' for n in range(1000)}", "ok"),
        ("def _repr_json_(self): return float('nan')", "ok"),
        ("def _repr_json_(self): return {1: 'a', '1': 'b'}", "ok"),
        ("def _repr_json_(self): return 10 ** 400", "ok"),
        ("def _repr_png_(self): return 'this is not base64'", "ok"),
        ("__class__ = property(lambda self: 1 / 0)", "ok"),
    ],
)
async def test_an_object_that_lies_about_itself_is_shown_as_far_as_it_can_be(
    room: Room, body: str, status: str
) -> None:
    done = await room.run(f"class Liar:\n    {body}\nLiar()")
    assert (done.status, done.fields["state_survived"]) == (status, True), done
    assert await room.value("1") == "1"


async def test_an_endless_nesting_is_left_out_of_a_bundle(room: Room) -> None:
    done = await room.run(
        "deep = []\ndeep.append(deep)\ndisplay({'application/json': deep, 'text/plain': 'p'}, raw=True)"
    )
    assert done.results == [({"text/plain": "p"}, False)]


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): raise ValueError",
        "def __str__(self): return 5",
        "def __str__(self): raise KeyboardInterrupt",
        "__cause__ = property(lambda self: 1 / 0)",
        "__traceback__ = property(lambda self: 1 / 0)",
        "def __getattribute__(self, name): raise SystemExit",
        "__class__ = property(lambda self: 1 / 0)",
    ],
)
async def test_an_exception_that_lies_is_still_told(room: Room, body: str) -> None:
    done = await room.run(f"class Lie(Exception):\n    {body}\nraise Lie('x')")
    assert done.status == "error"
    assert done.fields["state_survived"]
    assert await room.value("1") == "1"


async def test_an_enormous_error_is_cut(room: Room) -> None:
    done = await room.run("raise ValueError('x' * (100 << 20))")
    assert len(done.error["value"]) < 10_000
    assert len(done.error["traceback"]) < 60_000


async def test_a_metaclass_cannot_name_an_error(room: Room) -> None:
    code = (
        "class Meta(type):\n    __name__ = property(lambda cls: 5)\nclass E(Exception, metaclass=Meta): pass\nraise E"
    )
    assert (await room.run(code)).error["name"] == "E"


async def test_both_sides_of_a_fork_in_a_cell_are_heard_and_one_answers(room: Room) -> None:
    done = await room.run(
        "import os, time\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\nif pid: os.waitpid(pid, 0)"
    )
    assert sorted(done.stdout.split()) == ["child", "parent"]
    assert await room.value("6 * 7") == "42"


async def test_a_forked_process_that_shows_things_sends_nothing(room: Room) -> None:
    done = await room.run("import os\npid = os.fork()\ndisplay(pid)\nif pid: os.waitpid(pid, 0)")
    assert len(done.results) == 1


async def test_threads_print_on_between_runs_and_it_comes_with_the_next(room: Room) -> None:
    code = "import threading\ngo = threading.Event()\nthread = threading.Thread(target=lambda: (go.wait(), print('later')))\nthread.start()"
    assert (await room.run(code, context="late")).stdout == ""
    assert (await room.run("go.set(); thread.join()", context="late")).stdout == "later\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "signal"),
    [
        ("import os; os._exit(3)", 3, None),
        ("import ctypes; ctypes.string_at(0)", None, 11),
        ("import os; os.kill(os.getpid(), 9)", None, 9),
        ("import os; os.abort()", None, 6),
        ("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5, None),
        (
            "import sys; sys.setrecursionlimit(10**9)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x",
            None,
            11,
        ),
    ],
)
async def test_the_death_of_a_kernel_is_told_exactly_and_the_next_run_has_a_fresh_one(
    room: Room, code: str, exit_code: int | None, signal: int | None
) -> None:
    await room.run("kept = 1", context="dying")
    done = await room.run(f"print('last words')\n{code}", context="dying")
    assert (done.status, done.stdout) == ("died", "last words\n")
    assert (done.fields["exit_code"], done.fields["signal"]) == (exit_code, signal)
    assert not done.fields["state_survived"]
    assert done.error["name"] == "KernelDied"
    assert await room.value("'kept' in globals()", context="dying") == "False"


FIND_CONTROL = (
    "import os\n"
    "fd = next(n for n in range(3, 200) if os.path.lexists(f'/proc/self/fd/{n}')"
    " and os.readlink(f'/proc/self/fd/{n}').startswith('socket'))\n"
    "def send(b): os.write(fd, b)\n"
    "def frame(text): send(len(text).to_bytes(4, 'big') + text.encode())\n"
)


@pytest.mark.parametrize(
    "forgery",
    [
        "send(b'\\xff' * 64)",
        "send(b'\\0\\0\\0\\2{')\nsend(b'}')",
        "frame('{}')",
        "frame('[]')",
        "frame('null')",
        'frame(\'{"done": 999999, "status": "ok", "error": null, "limit": null, "exit_code": null, "background": 0}\')',
        'frame(\'{"done": true, "status": "ok", "error": null, "limit": null, "exit_code": null, "background": 0}\')',
        'frame(\'{"done": 1, "status": "root", "error": null, "limit": null, "exit_code": null, "background": 0}\')',
        'frame(\'{"display": {"data": {"image/png": "not base64"}, "metadata": {}, "main": true, "omitted": 0}}\')',
        'frame(\'{"display": {"data": {"text/plain": 5}, "metadata": {}, "main": true, "omitted": 0}}\')',
        "frame('[' * 100000)",
        "frame('9' * 5000000)",
        "send(b'\\0\\0\\xff\\xff' + b'x' * 10)\nos.close(fd)\nimport time; time.sleep(30)",
    ],
)
async def test_a_forged_record_costs_the_forger_the_kernel_and_nobody_else_anything(room: Room, forgery: str) -> None:
    await room.run("bystander = 1")
    done = await room.run(f"{FIND_CONTROL}{forgery}\nimport time; time.sleep(30)", context="forger", output=1 << 20)
    assert done.status == "died", done
    assert "broke the protocol" in done.error["value"]
    assert await room.value("6 * 7", context="forger") == "42"
    assert await room.value("bystander") == "1"


async def test_a_forged_end_of_the_own_run_is_only_the_end_of_that_run(room: Room) -> None:
    code = FIND_CONTROL + (
        'frame(\'{"done": %d, "status": "ok", "error": null, "limit": null, "exit_code": null, "background": 0}\' % RUN)\n'
        "open('next').read()"  # a FIFO: until somebody opens it for writing
    )
    await room.run("rm -f next; mkfifo next", "bash")
    await room.run("RUN = 2", context="early")
    done = await room.run(code, context="early")
    assert done.status == "ok"
    late = await room.start("1", context="early")  # it waits in the kernel
    await room.run(": > next", "bash")
    died = await room.end(late)
    assert died.status == "died", "the true end of the run before is one too many"
    assert "broke the protocol" in died.error["value"]
    assert await room.value("6 * 7") == "42"
