"""How a command ends: exit codes, and the one line that says why."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, ParamSpec, TextIO

import typer

from dayfly.cli.called import typeable
from dayfly.cli.printable import printable
from dayfly.errors import DayflyError, Fault, SandboxEnded, SandboxFileError
from dayfly.spec import EndReason, Execution, Outcome

__all__ = [
    "Ending",
    "OutputLost",
    "complain",
    "ending_of",
    "explain",
    "guarded",
    "note",
    "polite_signals",
    "say",
    "writing",
]

P = ParamSpec("P")


class Ending(IntEnum):
    """Exit codes; ``docs/cli.md`` explains them."""

    OK = 0
    CODE_FAILED = 1  # it raised, exited with another code, or took its sandbox down
    USAGE = 2
    LIMIT = 3  # a limit of the policy stopped the run or the sandbox
    FAILED = 4  # dayfly or this machine
    INTERRUPTED = 130
    READER_GONE = 141  # whoever read the output; or it cannot be written


class OutputLost(Exception):
    """Our own stdout or stderr takes no more."""


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
    if execution.outcome is Outcome.INTERRUPTED:
        return Ending.INTERRUPTED
    if execution.outcome in (Outcome.TIMEOUT, Outcome.CPU_LIMIT, Outcome.OUTPUT_LIMIT):
        return Ending.LIMIT
    if execution.limit not in (None, "output"):
        return Ending.LIMIT  # with the outcome ok, too: a child was stopped by it
    if execution.outcome is Outcome.OK:
        return Ending.CODE_FAILED if execution.exit_code else Ending.OK
    if execution.outcome is Outcome.SANDBOX_ENDED:
        return _ending_of_reason(execution.end_reason)
    return Ending.CODE_FAILED


def _ending_of_reason(reason: EndReason | None) -> Ending:
    if reason in _LIMIT_REASONS:
        return Ending.LIMIT
    return Ending.CODE_FAILED if reason in _CODE_REASONS else Ending.FAILED


def note(text: str) -> None:
    """Something for the person, beside the output."""
    with writing():
        typer.echo(typer.style(printable(typeable(text)), dim=True), err=True)


def say(text: str) -> None:
    """A line of the command's own output. Raises ``OutputLost``."""
    with writing():
        typer.echo(text)


@contextmanager
def writing() -> Iterator[None]:
    """Around whatever writes to our own streams. Raises ``OutputLost``, or ``BrokenPipeError`` if the reader left."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror or str(error)) from error


def complain(text: str, remedy: str | None = None) -> None:
    """What went wrong, in one line, and what to do about it."""
    try:
        typer.echo(f"{typer.style('dayfly:', fg='red')} {_one_line(text)}", err=True)
        if remedy:
            typer.echo(f"  {_one_line(remedy)}", err=True)
    except OSError:  # nobody is left to be told; the exit code still tells
        _silence(sys.stderr)


def _one_line(text: str) -> str:
    return printable(typeable(" ".join(text.split())))


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """A command that never shows a traceback (unless ``DAYFLY_DEBUG`` is set) and ends with an ``Ending``."""

    @functools.wraps(command)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with _signals_as_exits():
            try:
                code = command(*args, **kwargs)
                with writing():
                    sys.stdout.flush()
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, (typer.Exit, typer.Abort)):
                    raise
                if os.environ.get("DAYFLY_DEBUG"):
                    _show_traceback(error)
                code = explain(error)
        raise typer.Exit(int(code or 0))

    return call


def explain(error: BaseException) -> Ending:
    """Tell what went wrong, and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt):
        complain("interrupted")
        return Ending.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _silence(sys.stdout)
        _silence(sys.stderr)  # the same reader may have had both
        return Ending.READER_GONE
    if isinstance(error, OutputLost):
        _silence(sys.stdout)
        complain(f"cannot write the output: {error}", "send it elsewhere")
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


def _silence(stream: TextIO) -> None:
    """The interpreter flushes its streams at exit, and would complain."""
    with suppress(OSError, ValueError):  # not a file of the system: then there is nothing to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _signals_as_exits() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind like Ctrl-C does, so that nothing is left behind; under ``nohup`` SIGHUP stays ignored."""

    def leave(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in polite_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def polite_signals() -> list[signal.Signals]:
    """Those that ask for an end, but for what whoever started this wanted ignored."""
    found = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]
