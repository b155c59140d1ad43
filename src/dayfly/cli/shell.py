"""``dayfly shell``: a prompt with state, in a sandbox that goes away with it. Works on a pipe, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from dayfly import Sandbox
from dayfly.cli.endings import Ending, ending_of, guarded, note
from dayfly.cli.keeping import Keeping
from dayfly.cli.machine import image_of, language_in
from dayfly.cli.options import (
    Allow,
    Cpus,
    Env,
    ImageName,
    Memory,
    PolicyFile,
    Timeout,
    Verbose,
    environment_of,
    policy_of,
)
from dayfly.cli.screen import Screen, tell_cautions, tell_denials, tell_limits, tell_outcome
from dayfly.cli.statement import MAX_STATEMENT, check_size, is_leaving, is_whole, statements
from dayfly.spec import Execution, Outcome

__all__ = ["shell"]

MAX_HISTORY = 5000
"""Lines of history that are kept."""


@guarded
def shell(
    language: Annotated[str, typer.Option(help="python, bash or javascript.")] = "python",
    env: Env = None,
    timeout: Timeout = None,
    memory: Memory = None,
    cpus: Cpus = None,
    image: ImageName = None,
    policy: PolicyFile = None,
    allow: Allow = None,
    verbose: Verbose = False,
) -> int:
    """A prompt whose variables stay until you leave. Ctrl-C interrupts a run, Ctrl-D leaves."""
    rules = policy_of(policy, image=image, timeout=timeout, memory=memory, cpus=cpus, allow=allow)
    language = language_in(image_of(rules.image), language)
    tell_cautions(rules.network)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    keeping = Keeping(rules)
    with keeping.around(), Sandbox(rules, env=environment_of(env)) as sandbox:
        ending = _conversation(sandbox, language, terminal, verbose)
        keeping.save(sandbox)
    keeping.tell()
    return ending


def _conversation(sandbox: Sandbox, language: str, terminal: bool, verbose: bool) -> int:
    if not terminal:
        return _pipe(sandbox, language)
    tell_limits(sandbox.limits, watched=verbose)
    note(f"{language} in a sandbox; Ctrl-C interrupts, Ctrl-D or exit leaves")
    with _history():
        return _talk(sandbox, language)


def _talk(sandbox: Sandbox, language: str) -> int:
    while True:
        try:
            statement = _statement(sandbox, language)
        except KeyboardInterrupt:
            typer.echo()
            continue
        if statement is None:
            typer.echo()
            return Ending.OK
        if is_leaving(language, statement):
            return Ending.OK
        try:
            execution = _run(sandbox, language, statement)
        except KeyboardInterrupt:
            note("interrupted")
            continue
        if execution.outcome is Outcome.SANDBOX_ENDED:
            return ending_of(execution)
        if not execution.state_survived:
            note("started anew: the variables are gone")


def _pipe(sandbox: Sandbox, language: str) -> int:
    """Every statement in turn; the worst ending counts, and the end of the sandbox ends it."""
    worst = Ending.OK
    lines = iter(lambda: sys.stdin.readline(MAX_STATEMENT + 1), "")
    for statement in statements(language, (line.rstrip("\n") for line in lines)):
        if is_leaving(language, statement):
            break
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
    tell_denials(execution.denied)
    return execution


def _ask(first: bool) -> str | None:
    try:
        return input(">>> " if first else "... ")
    except EOFError:
        return None


def _statement(sandbox: Sandbox, language: str) -> str | None:
    """Lines until they make a statement; ``None`` at the end. An empty line ends one that would go on."""
    lines: list[str] = []
    size = 0
    while (line := _ask(not lines)) is not None:
        size += len(line)
        check_size(size)
        if not lines and not line.strip():
            continue
        lines.append(line)
        if _is_ended(language, lines) or is_whole(sandbox, language, lines):
            return "\n".join(lines)
    return "\n".join(lines) or None


def _is_ended(language: str, lines: list[str]) -> bool:
    """What leaves the shell asks nobody; an empty line is for Python to judge, and ends everything else."""
    if len(lines) == 1:
        return is_leaving(language, lines[0])
    return language != "python" and not lines[-1].strip()


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
