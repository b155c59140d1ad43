"""Showing what a run prints, while it prints it."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from dayfly.cli.endings import note, writing
from dayfly.cli.printable import LineKeeper
from dayfly.cli.registries import registries
from dayfly.cli.saving import SAVABLE
from dayfly.network import Asked, Network, lint, suggestion
from dayfly.spec import Denial, Enforcement, Execution, ExecutionError, LimitReport, Outcome, Result

__all__ = ["Screen", "tell_cautions", "tell_denials", "tell_limits", "tell_outcome", "tell_suggestion"]

MOST_DENIALS = 20
"""Told of one run: a program that tries every name there is should not scroll its own output away."""

_PICTURES = ("image/png", "image/jpeg", "image/svg+xml", "application/pdf")


class Screen:
    """The callbacks of a run. Output of the code goes to the same of our streams, made printable."""

    def __init__(self, *, saving: bool = False) -> None:
        """``saving``: what cannot be shown is going to be saved, and needs no hint."""
        self._hinted = saving
        self._out = LineKeeper()
        self._err = LineKeeper()

    def stdout(self, text: str) -> None:
        _write(sys.stdout, self._out.feed(text))

    def stderr(self, text: str) -> None:
        _write(sys.stderr, self._err.feed(text))

    def result(self, result: Result) -> None:
        """The text of it, whether it is the last value or was displayed; and that there is more than a terminal can show."""
        if isinstance(result.text, str):
            _write(sys.stdout, self._out.feed(f"{result.text}\n"))
        unseen = [mime for mime in result.data if mime in _PICTURES or not isinstance(result.text, str)]
        if unseen and SAVABLE.isdisjoint(unseen):
            note(f"[{', '.join(unseen)}]")
        elif unseen and not self._hinted:
            self._hinted = True
            note(f"[{', '.join(unseen)}: dayfly run --out DIR saves it]")

    def finish(self, execution: Execution) -> None:
        """What only the end brings: the traceback, unless the same was said already."""
        _write(sys.stdout, self._out.finish())
        _write(sys.stderr, self._err.finish())
        if execution.error is not None and not _is_told(execution, execution.error):
            text = execution.error.traceback or f"{execution.error.name}: {execution.error.value}"
            _write(sys.stderr, LineKeeper().feed(text.rstrip("\n") + "\n"))


def _is_told(execution: Execution, error: ExecutionError) -> bool:
    """Bash prints its syntax errors itself; of an interpreter's death there is ``tell_outcome``'s line."""
    if execution.outcome is Outcome.KERNEL_DIED:
        return error.name == "KernelDied"
    first = re.sub(r"^line \d+: ", "", error.value.partition("\n")[0])  # the two count lines differently
    return error.name == "SyntaxError" and first != "" and f": {first}" in execution.stderr


def _write(stream: TextIO, text: str) -> None:
    if text:
        encoding = stream.encoding or "utf-8"
        with writing():
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
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
    if execution.exit_code or (execution.exit_code is not None and execution.outcome is Outcome.KERNEL_DIED):
        parts.append(f"exit code {execution.exit_code}")
    if execution.signal is not None:
        parts.append(f"signal {execution.signal}")
    if execution.outcome is Outcome.KERNEL_DIED and len(parts) == 1 and execution.error is not None:
        parts.append(execution.error.value)
    if execution.end_reason is not None:
        parts.append(execution.end_reason.value)
    if execution.limit is not None:
        parts.append(f"limit: {execution.limit}")
    if execution.dropped:
        parts.append(f"{execution.dropped} bytes of output dropped")
    if parts:
        note("; ".join(parts))


def tell_cautions(rules: Network) -> None:
    """A line for each thing that whoever wrote the rules should know."""
    for told in dict.fromkeys(f"{one.host}: {one.reason} {one.remedy}" for one in lint(rules, registries=registries())):
        _note_line(f"note: {told}")


def tell_denials(denied: tuple[Denial, ...]) -> None:
    """A line for each destination that the code asked for and did not get: a name alone is none, where a port of it is another."""
    ports = {one.host for one in denied if one.port is not None}
    denied = tuple(one for one in denied if one.port is not None or one.host not in ports)
    for one in denied[:MOST_DENIALS]:
        place = one.host if one.port is None else f"{one.host}:{one.port}"
        times = f" (asked {one.count} times)" if one.count > 1 else ""
        _note_line(f"denied: {place}: {one.reason}{times}")
    if len(denied) > MOST_DENIALS:
        note(f"denied: {len(denied) - MOST_DENIALS} more, which --json lists")


def tell_suggestion(denied: tuple[Denial, ...]) -> None:
    """The rules that would have allowed it, as lines of TOML."""
    asked = [Asked(one.host, one.port, one.code, one.began, one.count) for one in denied]
    note("\n".join(suggestion(asked, registries())))


def _note_line(text: str) -> None:
    note(" ".join(text.split()))  # whatever names are in it


def tell_limits(limits: tuple[LimitReport, ...], *, watched: bool) -> None:
    """A line if this machine does not keep a limit at all, or (if ``watched`` is asked for) less than strictly."""
    loose = [limit.name for limit in limits if watched and limit.enforcement is Enforcement.WATCHED]
    unenforced = [limit.name for limit in limits if limit.enforcement is Enforcement.UNENFORCED]
    parts = [f"{', '.join(loose)} watched (may be exceeded for a moment)"] if loose else []
    parts += [f"{', '.join(unenforced)} NOT enforced"] if unenforced else []
    if parts:
        note(f"limits: {'; '.join(parts)}")
