"""Names that were asked for and do not exist, told to the host: claims, a few at a time."""

from __future__ import annotations

import time

from dayfly.agent.network.names import MAX_LENGTH
from dayfly.agent.openings import Full
from dayfly.agent.session import Task
from dayfly.wire.operations import NAMES_REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.loop import Loop, Timer
    from dayfly.agent.openings import Openings

MAX_NAMES = 100
"""In one report. What is refused beyond that until it is sent is not told at all: a flood of names has no news in it."""

SECONDS = 1.0
"""Between two reports, at least, unless the host is about to hear the end of something: what was refused during a run is
told before the run's end."""

GATHERED = 0.05
"""Seconds that the first name waits for more."""

MAX_UNDER_WAY = 4
"""Reports that the host has not answered."""


class Reports:
    """Gathers and sends."""

    def __init__(self, loop: Loop, openings: Openings) -> None:
        self._loop = loop
        self._openings = openings
        self._counts: dict[str, int] = {}
        self._timer: Timer | None = None
        self._last = 0.0
        self._under_way = 0

    def refused(self, name: str, *, again: bool = True) -> None:
        """Somebody asked for ``name``: printable, of any length. ``again``: not only for another kind of its records."""
        name = name[:MAX_LENGTH]
        if name in self._counts or len(self._counts) < MAX_NAMES:
            self._counts[name] = self._counts.get(name, 0) + again
            self._send_later()

    def send(self) -> None:
        """All that there is, now, if the host keeps up. Raises nothing."""
        if not self._counts or self._under_way >= MAX_UNDER_WAY:
            return
        names = [{"host": name, "count": max(1, count)} for name, count in self._counts.items()]
        try:
            self._openings.open(NAMES_REFUSED, {"names": names}, _Report(self), first=True)
        except Full:
            self._send_later()
            return
        self._counts = {}
        self._under_way += 1
        self._last = time.monotonic()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def answered(self) -> None:
        self._under_way -= 1
        if self._counts:
            self._send_later()

    def _send_later(self) -> None:
        if self._timer is None:
            now = time.monotonic()
            self._timer = self._loop.call_at(max(now + GATHERED, self._last + SECONDS), self._due)

    def _due(self) -> None:
        self._timer = None
        self.send()


class _Report(Task):
    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def on_close(self) -> None:
        self._reports.answered()
