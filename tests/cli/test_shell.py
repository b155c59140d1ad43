"""``dayfly shell``, typed at through a terminal and through a pipe."""

from __future__ import annotations

import os
import pty
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.leftovers import Dayfly, leftovers

pytestmark = pytest.mark.gvisor

IMAGE = ("--image", "python")


class Terminal:
    """A ``dayfly shell`` on a pseudo-terminal."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dayfly", "shell", *IMAGE, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "dumb"},
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str, seconds: float = 20.0) -> str:
        """What is shown up to ``text``, which must come."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode()
                except OSError:  # the other side is closed
                    break
        assert text in self.seen, self.seen
        found, self.seen = self.seen.split(text, 1)
        return found

    def press_until(self, key: str, text: str) -> None:
        """Press a key until ``text`` comes: CPython's readline loses a signal that comes just before it waits again."""
        for _ in range(10):
            self.type(key)
            try:
                self.until(text, 2.0)
            except AssertionError:
                continue
            return
        raise AssertionError(f"{text!r} did not come: {self.seen!r}")


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Terminal]:
    yield from talking(environment)


def talking(environment: dict[str, str], *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(environment, *arguments)
    yield terminal
    terminal.process.terminate()
    terminal.process.wait(20)
    os.close(terminal.master)


def test_a_prompt_keeps_state_takes_blocks_and_is_interrupted(
    terminal: Terminal, environment: dict[str, str], data: Path
) -> None:
    terminal.until(">>> ")
    terminal.type("x = 20\n")
    terminal.until(">>> ")
    terminal.type("def f(y):\n")
    terminal.until("... ")
    terminal.type("    return x + y\n")
    terminal.until("... ")
    terminal.type("\n")
    terminal.until(">>> ")
    terminal.type("f(22)\n")
    assert "42" in terminal.until(">>> ")
    terminal.type("print('spin' + 'ning', flush=True)\n")
    terminal.until("spinning")
    terminal.until(">>> ")
    terminal.type("exec(\"print('beg' + 'un', flush=True)\\nwhile True: pass\")\n")
    terminal.until("begun")
    terminal.type("\x03")
    terminal.until("interrupted")
    terminal.until(">>> ")
    terminal.type("x\n")
    assert "20" in terminal.until(">>> ")
    terminal.type("'\\x1b[31m'; print('\\x1b[31m')\n")
    assert "\\x1b[31m" in terminal.until(">>> ")
    terminal.type("\x04")
    assert terminal.process.wait(20) == 0
    history = Path(environment["XDG_STATE_HOME"]) / "dayfly" / "history"
    assert "def f(y):" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert leftovers(data) == []


def talk(terminal: Terminal, line: str, prompt: str = ">>> ") -> str:
    terminal.type(f"{line}\n")
    return terminal.until(prompt)


@pytest.fixture
def bash(environment: dict[str, str]) -> Iterator[Terminal]:
    yield from talking(environment, "--language", "bash")


@pytest.fixture
def javascript(environment: dict[str, str]) -> Iterator[Terminal]:
    yield from talking(environment, "--image", "data", "--language", "js")


def test_bash_goes_on_until_a_statement_is_whole(bash: Terminal) -> None:
    bash.until(">>> ")
    for line in ("for i in 1 2", "do", "echo number $i"):
        talk(bash, line, "... ")
    assert "number 1\r\nnumber 2" in talk(bash, "done")
    talk(bash, "cat <<END", "... ")
    talk(bash, "in the document", "... ")
    assert "in the document\r\n" in talk(bash, "END")
    talk(bash, "echo 'one", "... ")
    assert "one\r\ntwo" in talk(bash, "two'")
    assert talk(bash, "echo )").count("syntax error") == 1
    talk(bash, "if true; then", "... ")
    assert talk(bash, "").count("syntax error") == 1
    assert "exit code 1" in talk(bash, "false")
    assert "variables are gone" in talk(bash, "exit 3")
    bash.type("exit\n")
    assert bash.process.wait(20) == 0


def test_javascript_goes_on_until_a_statement_is_whole(javascript: Terminal) -> None:
    javascript.until(">>> ")
    talk(javascript, "function f() {", "... ")
    talk(javascript, "  return 6 * 7", "... ")
    talk(javascript, "}")
    assert "42" in talk(javascript, "f()")
    talk(javascript, "await Promise.all([", "... ")
    assert "[ 5 ]" in talk(javascript, "5])")
    talk(javascript, "`a", "... ")
    assert "a\\nb" in talk(javascript, "b`")
    assert "SyntaxError" in talk(javascript, "let )")
    javascript.type(".exit\n")
    assert javascript.process.wait(20) == 0


@pytest.mark.parametrize("word", ["exit", "quit", "exit()", " quit(); "])
def test_a_word_leaves_the_shell(terminal: Terminal, word: str) -> None:
    terminal.until(">>> ")
    terminal.type(f"{word}\n")
    assert terminal.process.wait(20) == 0


def test_ctrl_c_at_the_prompt_only_drops_the_line(terminal: Terminal) -> None:
    terminal.until(">>> ")
    terminal.type("half a li")
    terminal.until("half a li")
    terminal.press_until("\x03", ">>> ")
    terminal.type("1 + 1\n")
    assert "2" in terminal.until(">>> ")
    terminal.type("\x04")
    assert terminal.process.wait(20) == 0


PROGRAM = """x = 1
def f():

    return x + 1

print(f())
1 / 0
print('after')
"""


def test_a_pipe_runs_statement_by_statement_and_the_worst_ending_counts(dayfly: Dayfly) -> None:
    done = dayfly("shell", *IMAGE, input=PROGRAM)
    assert (done.stdout, done.returncode) == ("2\nafter\n", 1)
    assert "ZeroDivisionError" in done.stderr
    assert dayfly("shell", *IMAGE, input="1\nexit()\n2\n").stdout == "1\n"
    assert ">>>" not in done.stdout + done.stderr
    assert dayfly("shell", *IMAGE, "--language", "bash", input="for i in 1 2\ndo echo $i\ndone\n").stdout == "1\n2\n"


def test_the_end_of_the_sandbox_ends_the_pipe(dayfly: Dayfly) -> None:
    done = dayfly("shell", *IMAGE, input="x = 1\nimport os; os.kill(-1, 9)\nprint(x)\n")
    assert done.returncode in (1, 3), done.stderr
    assert done.stdout in ("", "1\n")


def test_an_unknown_language_is_refused(dayfly: Dayfly) -> None:
    done = dayfly("shell", *IMAGE, "--language", "cobol", input="1")
    assert done.returncode == 2
    assert "there is" in done.stderr
