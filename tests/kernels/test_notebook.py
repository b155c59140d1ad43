"""What IPython adds: rich results, figures, magics."""

from __future__ import annotations

import base64

import pytest

from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

PNG = b"\x89PNG\r\n\x1a\n"


async def test_a_figure_is_shown_without_being_asked_for(room: Room) -> None:
    done = await room.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert done.status == "ok", done
    [(data, main)] = done.results
    assert not main
    assert base64.b64decode(data["image/png"]).startswith(PNG)


async def test_a_figure_is_shown_once_if_it_is_asked_for(room: Room) -> None:
    done = await room.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')")
    assert ["image/png" in data for data, _ in done.results] == [True]


async def test_a_figure_that_was_begun_is_shown_even_if_the_cell_fails_later(room: Room) -> None:
    done = await room.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1 / 0")
    assert done.error["name"] == "ZeroDivisionError"
    assert ["image/png" in data for data, _ in done.results] == [True]


async def test_a_figure_that_cannot_be_drawn_is_the_error_of_its_run(room: Room) -> None:
    done = await room.run("import matplotlib.pyplot as plt\nplt.title(r'$\\nope{$');")
    assert (done.status, ["image/png" in data for data, _ in done.results]) == ("error", [False])
    assert (await room.run("1")).results == [({"text/plain": "1"}, True)]


async def test_a_data_frame_is_text_and_html(room: Room) -> None:
    [(data, main)] = (await room.run("import pandas as pd\npd.DataFrame({'a': [1]})")).results
    assert main
    assert data["text/plain"].split() == ["a", "0", "1"]
    assert "<table" in data["text/html"]


@pytest.mark.parametrize(
    ("made", "mime", "value"),
    [
        ("HTML('<b>x</b>')", "text/html", "<b>x</b>"),
        ("Markdown('# x')", "text/markdown", "# x"),
        ("Latex('$x$')", "text/latex", "$x$"),
        (
            "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
            "image/svg+xml",
            '<svg xmlns="http://www.w3.org/2000/svg"/>',
        ),
        ("Javascript('1')", "application/javascript", "1"),
        ("JSON({'a': [1]})", "application/json", {"a": [1]}),
        ("Image(data=b'\\x89PNG', format='png')", "image/png", "iVBORw=="),
        ("Image(data=b'\\xff\\xd8', format='jpeg')", "image/jpeg", "/9g="),
        ("display({'application/pdf': b'%PDF'}, raw=True)", "application/pdf", "JVBERg=="),
    ],
)
async def test_every_kind_of_rich_result_arrives(room: Room, made: str, mime: str, value: object) -> None:
    [(data, _)] = (await room.run(f"from IPython.display import *\n{made}")).results
    assert data[mime] == value


async def test_an_update_of_a_display_is_another_display(room: Room) -> None:
    code = "from IPython.display import HTML\nh = display(HTML('one'), display_id=True)\nh.update(HTML('two'))"
    assert [data["text/html"] for data, _ in (await room.run(code)).results] == ["one", "two"]


async def test_long_values_are_shown_short(room: Room) -> None:
    text = await room.value("list(range(100000))")
    assert text is not None
    assert len(text) < 10000


async def test_a_shell_line_streams_and_leaves_its_exit_code(room: Room) -> None:
    done = await room.run("print('before', end=' ')\n!echo hi; exit 3")
    assert (done.status, done.stdout) == ("ok", "before hi\n")
    assert await room.value("_exit_code") == "3"


async def test_a_shell_line_can_be_captured_and_takes_variables(room: Room) -> None:
    assert await room.value("word = 'caught'\nlines = !echo {word}\nlines") == "['caught']"


async def test_timeit_times(room: Room) -> None:
    assert "per loop" in (await room.run("%timeit -n1 -r1 pass")).stdout


async def test_a_cell_magic_in_bash_works_and_its_failure_is_an_error(room: Room) -> None:
    done = await room.run("%%bash\necho from bash\nexit 2")
    assert (done.stdout, done.error["name"]) == ("from bash\n", "CalledProcessError")


async def test_an_error_that_a_magic_only_shows_is_the_error_of_the_run(room: Room) -> None:
    done = await room.run("%%time\n1 / 0")
    assert done.error["name"] == "ZeroDivisionError"
    await room.run("%%writefile failing.py\nraise KeyError('in the file')")
    done = await room.run("%run failing.py")
    assert done.error["name"] == "KeyError"


async def test_an_unknown_magic_is_an_error(room: Room) -> None:
    assert (await room.run("%no_such_magic")).error["name"] == "UsageError"


async def test_a_bare_shell_command_is_understood_as_one(room: Room) -> None:
    assert await room.value("pwd") == "'/home/user'"


async def test_a_variable_of_a_magics_name_is_a_variable(room: Room) -> None:
    assert await room.value("ls = 5\nls", context="shadow") == "5"
    assert await room.value("ls", context="shadow") == "5"


async def test_captured_output_is_not_delivered(room: Room) -> None:
    done = await room.run("%%capture caught\nprint('inside')\n5")
    assert (done.stdout, done.results) == ("", [])
    assert await room.value("caught.stdout") == "'inside\\n'"


async def test_pip_without_a_network_fails_soon_and_says_what_to_do(room: Room) -> None:
    done = await room.run("%pip install no-such-package-anywhere", cpu=30)
    assert "%pip ended with exit code 1" in done.stderr
    assert "dayfly images build" in done.stderr
    assert done.status == "ok"


async def test_pip_is_content_with_what_is_installed(room: Room) -> None:
    done = await room.run("%pip install pandas")
    assert "already satisfied" in done.stdout, done
    assert "%pip ended" not in done.stderr


async def test_there_is_no_trace_of_a_profile_or_history_on_the_disk(room: Room) -> None:
    assert await room.value("import os\nos.path.exists(os.path.expanduser('~/.ipython'))") == "False"


async def test_an_ipython_that_cannot_be_used_gives_the_plain_kernel(room: Room) -> None:
    """Whoever breaks it in their own packages still has a kernel."""
    site = "import site, os\npath = site.getusersitepackages() + '/IPython'\nos.makedirs(path)"
    await room.run(f"{site}\nopen(path + '/__init__.py', 'w').write('raise RuntimeError(\"broken\")')")
    try:
        assert await room.value("6 * 7", context="broken") == "42"
        assert (await room.run("%timeit 1", context="broken")).error["name"] == "SyntaxError"
    finally:
        await room.run("import shutil\nshutil.rmtree(path)")
