"""Showing what a run prints, while it prints it."""

from __future__ import annotations

import sys
from typing import TextIO

from dayfly.cli.endings import note
from dayfly.cli.printable import LineKeeper
from dayfly.spec import Enforcement, Execution, LimitReport, Outcome, Result

__all__ = ["Screen", "tell_limits", "tell_outcome"]

_RICH = ("image/png", "image/jpeg", "image/svg+xml", "text/html", "application/pdf", "text/latex")


class Screen:
    """The callbacks of a run. Output of the code goes to the same of our streams, made printable."""

    def __init__(self) -> None:
        self._out = LineKeeper()
        self._err = LineKeeper()

    def stdout(self, text: str) -> None:
        _write(sys.stdout, self._out.feed(text))

    def stderr(self, text: str) -> None:
        _write(sys.stderr, self._err.feed(text))

    def result(self, result: Result) -> None:
        """The text of it; of a picture, that there is one."""
        if isinstance(result.text, str) and (result.is_main or not _pictures(result)):
            _write(sys.stdout, self._out.feed(f"{result.text}\n"))
        elif pictures := _pictures(result):
            note(f"[{', '.join(pictures)}]")

    def finish(self, execution: Execution) -> None:
        """What only the end brings: the traceback."""
        _write(sys.stdout, self._out.finish())
        _write(sys.stderr, self._err.finish())
        if execution.error is not None:
            text = execution.error.traceback or f"{execution.error.name}: {execution.error.value}"
            _write(sys.stderr, LineKeeper().feed(text.rstrip("\n") + "\n"))


def _pictures(result: Result) -> list[str]:
    return [mime for mime in _RICH if mime in result.data]


def _write(stream: TextIO, text: str) -> None:
    if text:
        stream.write(text.encode(stream.encoding or "utf-8", "backslashreplace").decode(stream.encoding or "utf-8"))
        stream.flush()


_OUTCOMES = {
    Outcome.TIMEOUT: "stopped: the time was up",
    Outcome.CPU_LIMIT: "stopped: the CPU time was used up",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.KERNEL_DIED: "the interpreter ended",
    Outcome.SANDBOX_ENDED: "the sandbox ended",
}


def tell_outcome(execution: Execution) -> None:
    """A line about an end that the output does not show."""
    parts = [_OUTCOMES[execution.outcome]] if execution.outcome in _OUTCOMES else []
    if execution.exit_code is not None and parts:
        parts.append(f"exit code {execution.exit_code}")
    if execution.signal is not None:
        parts.append(f"signal {execution.signal}")
    if execution.end_reason is not None:
        parts.append(execution.end_reason.value)
    if execution.limit is not None:
        parts.append(f"limit: {execution.limit}")
    if execution.dropped:
        parts.append(f"{execution.dropped} bytes of output dropped")
    if parts:
        note("; ".join(parts))


def tell_limits(limits: tuple[LimitReport, ...]) -> None:
    """A line if this machine keeps a limit less than strictly."""
    watched = [limit.name for limit in limits if limit.enforcement is Enforcement.WATCHED]
    unenforced = [limit.name for limit in limits if limit.enforcement is Enforcement.UNENFORCED]
    parts = [f"{', '.join(watched)} watched (may be exceeded for a moment)"] if watched else []
    parts += [f"{', '.join(unenforced)} NOT enforced"] if unenforced else []
    if parts:
        note(f"limits: {'; '.join(parts)}")
