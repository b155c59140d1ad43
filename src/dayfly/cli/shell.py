"""``dayfly shell``: a prompt with state, in a sandbox that goes away with it. Works on a pipe, too."""

from __future__ import annotations

import codeop
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from dayfly import Sandbox
from dayfly.cli.endings import Ending, ending_of, guarded, note
from dayfly.cli.options import Cpus, Env, ImageName, Memory, PolicyFile, Timeout, environment_of, policy_of
from dayfly.cli.screen import Screen, tell_limits, tell_outcome
from dayfly.errors import InputError
from dayfly.spec import Execution, Outcome

__all__ = ["is_complete", "shell", "statements"]

MAX_HISTORY = 5000
"""Lines of history that are kept."""

MAX_STATEMENT = 16 * 1024 * 1024
"""Characters of one statement: a pipe without an end must not fill memory."""


@guarded
def shell(
    language: Annotated[str, typer.Option(help="python, bash or javascript.")] = "python",
    env: Env = None,
    timeout: Timeout = None,
    memory: Memory = None,
    cpus: Cpus = None,
    image: ImageName = None,
    policy: PolicyFile = None,
) -> int:
    """A prompt whose variables stay until you leave. Ctrl-C interrupts a run, Ctrl-D leaves."""
    rules = policy_of(policy, image=image, timeout=timeout, memory=memory, cpus=cpus)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with Sandbox(rules, env=environment_of(env)) as sandbox:
        if language not in sandbox.languages:
            raise InputError(f"no {language!r} in this image", remedy=f"there is {', '.join(sandbox.languages)}")
        if not terminal:
            return _pipe(sandbox, language)
        tell_limits(sandbox.limits)
        note(f"{language} in a sandbox; Ctrl-C interrupts, Ctrl-D leaves")
        with _history():
            return _talk(sandbox, language)


def _talk(sandbox: Sandbox, language: str) -> int:
    while True:
        try:
            statement = _statement(language, _ask)
        except KeyboardInterrupt:
            typer.echo()
            continue
        if statement is None:
            typer.echo()
            return Ending.OK
        try:
            execution = _run(sandbox, language, statement)
        except KeyboardInterrupt:
            note("interrupted")
            continue
        if execution.outcome is Outcome.SANDBOX_ENDED:
            return ending_of(execution)


def _pipe(sandbox: Sandbox, language: str) -> int:
    """Every statement in turn; the worst ending counts, and the end of the sandbox ends it."""
    worst = Ending.OK
    lines = iter(lambda: sys.stdin.readline(MAX_STATEMENT + 1), "")
    for statement in statements(language, (line.rstrip("\n") for line in lines)):
        execution = _run(sandbox, language, statement)
        worst = max(worst, ending_of(execution))
        if execution.outcome is Outcome.SANDBOX_ENDED:
            break
    return worst


def _run(sandbox: Sandbox, language: str, statement: str) -> Execution:
    screen = Screen()
    execution = sandbox.run_code(
        statement, language=language, on_stdout=screen.stdout, on_stderr=screen.stderr, on_result=screen.result
    )
    screen.finish(execution)
    tell_outcome(execution)
    return execution


def _ask(first: bool) -> str | None:
    try:
        return input(">>> " if first else "... ")
    except EOFError:
        return None


def statements(language: str, lines: Iterator[str]) -> Iterator[str]:
    """Cut a program that comes on a pipe, so that each statement runs as soon as it is surely whole.

    Empty lines do not end a block here, as they do at a prompt: a line that is not indented does. Where nothing is known
    of a language's statements, all of it is one.
    """
    block: list[str] = []
    size = 0
    for line in lines:
        if block and language == "python" and _begins(line) and is_complete(language, [*block, ""]):
            yield "\n".join(block)
            block, size = [], 0
        if block or line.strip():
            size += len(line)
            _check(size)
            block.append(line)
        if block and language == "python" and line.strip() and is_complete(language, block):
            yield "\n".join(block)
            block, size = [], 0
    if block:
        yield "\n".join(block)


def _begins(line: str) -> bool:
    """Whether a line begins a statement at the outermost level."""
    return line[:1].strip() != "" and not line.startswith(("else", "elif", "except", "finally", ")", "]", "}", "#"))


def _check(size: int) -> None:
    if size > MAX_STATEMENT:
        raise InputError(f"a statement of more than {MAX_STATEMENT} characters")


def _statement(language: str, next_line: Callable[[bool], str | None]) -> str | None:
    """Lines until they make a statement; ``None`` at the end. An empty line ends one that would go on."""
    lines: list[str] = []
    size = 0
    while (line := next_line(not lines)) is not None:
        size += len(line)
        _check(size)
        if not lines and not line.strip():
            continue
        lines.append(line)
        if is_complete(language, lines):
            return "\n".join(lines)
    return "\n".join(lines) or None


def is_complete(language: str, lines: list[str]) -> bool:
    """Whether to run what was typed so far. Only a guess: what is wrong or foreign counts as complete."""
    if lines[-1].endswith("\\"):
        return False
    if language != "python" or lines[0].startswith(("!", "%")):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return codeop.compile_command("\n".join(lines), symbol="exec" if _one_line(lines) else "single") is not None
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return True  # the interpreter inside says what is wrong with it


def _one_line(lines: list[str]) -> bool:
    """``single`` refuses a second statement; a line such as ``a = 1; b = 2`` is one all the same."""
    return len(lines) == 1


@contextmanager
def _history() -> Iterator[None]:
    """Lines of earlier sessions, in a file that only the user reads: what one types may be private."""
    try:
        import readline
    except ImportError:  # not everywhere; then the prompt is a plain one
        yield
        return
    file = _history_file()
    with suppress(OSError):  # none yet, or not readable: a prompt without it works too
        readline.read_history_file(file)
    readline.set_history_length(MAX_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            before = os.umask(0o077)
            try:
                readline.write_history_file(file)
                file.chmod(0o600)
            finally:
                os.umask(before)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if Path(state).is_absolute() else Path.home() / ".local/state") / "dayfly" / "history"
