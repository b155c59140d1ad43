"""What the judge sees of a target's attempts: the proof's own servers on loopback, and where there is a box every packet out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dayfly.prove.bait import Bait
from dayfly.prove.probe import Expected, Probe
from dayfly.prove.targets.target import Place
from dayfly.prove.targets.wire import Wire

__all__ = ["BY_PACKETS", "TO_LOOPBACK", "View"]

_BY_SERVERS = frozenset({"network.loopback.tcp", "network.loopback.udp", "boundary.socket.host"})
"""Probes that reach for the proof's own servers."""

BY_PACKETS = frozenset(
    {"network.asked_over_tcp", "network.many_tcp", "network.queried", "network.resolved", "network.reversed_name", "network.udp"}
)  # fmt: skip
"""Attempts that send something."""

TO_LOOPBACK = frozenset({"dns.here", *_BY_SERVERS})
"""But for these, which send it to themselves."""


@dataclass
class View:
    """``wire``: what comes out of the box; none where there is no box."""

    place: Place
    prey: Bait
    wire: Wire | None = None
    _counted: int = 0  # packets of this probe's that are in a verdict
    _aside: list[str] = field(default_factory=list)  # what came out and is in none

    @property
    def marks(self) -> Mapping[str, Any]:
        return self.prey.marks

    async def alive(self) -> str:
        """Why those who watch prove nothing; empty: they do."""
        return await self.prey.alive() or (await self.wire.alive() if self.wire else "")

    def watch(self) -> None:
        self._aside += self._uncounted()
        self._counted = 0
        self.prey.watch()
        if self.wire:
            self.wire.watch()

    def _uncounted(self) -> tuple[str, ...]:
        return self.wire.heard()[self._counted :] if self.wire else ()

    def watched(self, probe: Probe) -> bool:
        """Whether it would be seen here if it were reached."""
        if probe.id in _BY_SERVERS:
            return self.place is not Place.ELSEWHERE
        return self.wire is not None and probe.attempt in BY_PACKETS and probe.id not in TO_LOOPBACK

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        """What came since. Of what must work nothing is to come."""
        came = self.prey.contacts(probe)
        if probe.expected is Expected.ALLOWED:
            return came
        heard = self.wire.heard() if self.wire else ()
        self._counted = len(heard)
        return (*came, *heard)

    def late(self, probe: Probe) -> tuple[str, ...]:
        return self.prey.late(probe)

    def strays(self) -> tuple[str, ...]:
        """What came and is in no verdict: while something that must work was tried, or after the last."""
        return (*self.prey.strays(), *self._aside, *self._uncounted())

    def leaked(self, output: str) -> tuple[str, ...]:
        """Only what this machine knows: elsewhere there is nothing of it."""
        return self.prey.leaked(output)
