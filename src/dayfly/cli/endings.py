"""How a command ends: exit codes, and the one line that says why."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ParamSpec

import typer

from dayfly.cli.printable import printable
from dayfly.errors import DayflyError, Fault, SandboxEnded, SandboxFileError
from dayfly.spec import EndReason, Execution, Outcome

__all__ = ["Ending", "complain", "ending_of", "guarded", "note"]

P = ParamSpec("P")


class Ending(IntEnum):
    """Exit codes; ``docs/cli.md`` explains them."""

    OK = 0
    CODE_FAILED = 1  # it raised, exited with another code, or took its sandbox down
    USAGE = 2
    LIMIT = 3  # a limit of the policy stopped the run or the sandbox
    FAILED = 4  # dayfly or this machine
    INTERRUPTED = 130
    READER_GONE = 141  # whoever read the output


_LIMIT_REASONS = {
    EndReason.MEMORY_LIMIT,
    EndReason.PROCESS_LIMIT,
    EndReason.DISK_LIMIT,
    EndReason.CPU_LIMIT,
    EndReason.OUTPUT_LIMIT,
    EndReason.IDLE_TIMEOUT,
    EndReason.MAX_LIFETIME,
}
_CODE_REASONS = {EndReason.CRASHED, EndReason.UNRESPONSIVE, EndReason.PROTOCOL_VIOLATION}


def ending_of(execution: Execution) -> Ending:
    """The exit code that an execution deserves. Output that was cut off is not a failure."""
    if execution.outcome is Outcome.OK:
        return Ending.OK
    if execution.outcome is Outcome.INTERRUPTED:
        return Ending.INTERRUPTED
    if execution.outcome in (Outcome.TIMEOUT, Outcome.CPU_LIMIT, Outcome.OUTPUT_LIMIT):
        return Ending.LIMIT
    if execution.limit not in (None, "output"):
        return Ending.LIMIT
    if execution.outcome is Outcome.SANDBOX_ENDED:
        return _ending_of_reason(execution.end_reason)
    return Ending.CODE_FAILED


def _ending_of_reason(reason: EndReason | None) -> Ending:
    if reason in _LIMIT_REASONS:
        return Ending.LIMIT
    return Ending.CODE_FAILED if reason in _CODE_REASONS else Ending.FAILED


def note(text: str) -> None:
    """Something for the person, beside the output."""
    typer.echo(typer.style(printable(text), dim=True), err=True)


def complain(text: str, remedy: str | None = None) -> None:
    """What went wrong, in one line, and what to do about it."""
    typer.echo(f"{typer.style('dayfly:', fg='red')} {_one_line(text)}", err=True)
    if remedy:
        typer.echo(f"  {_one_line(remedy)}", err=True)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """A command that never shows a traceback (unless ``DAYFLY_DEBUG`` is set) and ends with an ``Ending``."""

    @functools.wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with _signals_as_exits():
            try:
                code = command(*args, **kwargs)
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, (typer.Exit, typer.Abort)):
                    raise
                if os.environ.get("DAYFLY_DEBUG"):
                    _show_traceback(error)
                code = _explain(error)
        raise typer.Exit(int(code or 0))

    return call


def _explain(error: BaseException) -> Ending:
    if isinstance(error, KeyboardInterrupt):
        complain("interrupted")
        return Ending.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _silence_stdout()
        return Ending.READER_GONE
    if isinstance(error, DayflyError):
        complain(error.message, error.remedy)
        return _ending_of_error(error)
    if isinstance(error, OSError):
        complain(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return Ending.FAILED
    complain(f"internal error: {type(error).__name__}: {error}", "DAYFLY_DEBUG=1 shows where; please report it")
    return Ending.FAILED


def _ending_of_error(error: DayflyError) -> Ending:
    if isinstance(error, SandboxEnded):
        return _ending_of_reason(EndReason(error.reason) if error.reason in set(EndReason) else None)
    if isinstance(error, SandboxFileError) or error.fault is Fault.SANDBOX:
        return Ending.CODE_FAILED
    return Ending.USAGE if error.fault is Fault.CALLER else Ending.FAILED


def _show_traceback(error: BaseException) -> None:
    import traceback

    typer.echo(printable("".join(traceback.format_exception(error))), err=True)


def _silence_stdout() -> None:
    """The interpreter flushes stdout at exit, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _signals_as_exits() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind like Ctrl-C does, so that nothing is left behind."""

    def leave(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), leave) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
