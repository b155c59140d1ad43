"""One running gVisor sandbox, seen from an event loop."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import CellEnd
from dayfly.boundaries.gvisor.checkpoint import TooSlow, take
from dayfly.boundaries.gvisor.ending import natural_end
from dayfly.boundaries.gvisor.footprint import Footprint
from dayfly.boundaries.gvisor.guard import SHORTEST, Caps, exceeded, next_look
from dayfly.boundaries.gvisor.meter import Meter, Sample, SentryGone
from dayfly.boundaries.gvisor.start import Plan, Started
from dayfly.boundaries.gvisor.watcher import watch
from dayfly.boundaries.life import CellLife
from dayfly.boundaries.pipes import PipeStream
from dayfly.boundaries.processes import Child
from dayfly.boundaries.snapshot import Snapshot
from dayfly.boundaries.stderr import last_words
from dayfly.spec import EndReason, LimitReport, Usage

__all__ = ["GvisorCell"]

ENDING_LOOKS = 20
"""Looks in a row, a second in all, at which a cell may be unreadable. Ending takes some milliseconds."""


class GvisorCell:
    """Made by ``GvisorBoundary.open``, on the loop that will use it."""

    def __init__(
        self,
        plan: Plan,
        started: Started,
        meter: Meter,
        caps: Caps,
    ) -> None:
        self._id = plan.spec.id
        self._plan = plan
        self._stream = started.stream
        self._meter = meter
        self._caps = caps
        self._sample = Sample(0, 0, 0.0)
        self._peak = 0
        self._looks = self._unreadable = 0
        self._behind = self._saving = False
        self._footprint = started.footprint
        self._life = CellLife(_Body(started.footprint, meter, caps.memory), started.stream)
        watch(self._look)

    def __repr__(self) -> str:
        return f"<GvisorCell {self._id[:12]} {self._life.state}>"

    @property
    def id(self) -> str:
        return self._id

    @property
    def stream(self) -> PipeStream:
        return self._stream

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        return self._plan.reports

    def explain(self) -> Mapping[str, Any]:
        return self._plan.explain(self._footprint.directory.uid)

    async def wait(self) -> CellEnd:
        return await self._life.wait()

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        return await self._life.kill(reason, detail)

    async def close(self, grace: float) -> CellEnd:
        return await self._life.close(grace)

    def freeze(self) -> None:
        """An idle sentry burns 2-4 % of a core; stopped it uses none, and continues within 1 ms."""
        self._footprint.signal_sentry(signal.SIGSTOP)

    def thaw(self) -> None:
        self._footprint.signal_sentry(signal.SIGCONT)

    def step_behind(self, behind: bool) -> bool:
        cgroup = self._footprint.cgroup
        if cgroup is None or not self._plan.courteous or self._footprint.struck:
            return False
        self._behind = behind
        return self._saving or cgroup.step_behind(behind)

    async def snapshot(self, directory: Path) -> Snapshot:
        self.thaw()
        self._hurry(True)
        try:
            return await take(self._plan, directory)
        except TooSlow as error:
            await self.kill(EndReason.BOUNDARY_LOST, error.message)
            raise
        finally:
            self._hurry(False)

    def _hurry(self, saving: bool) -> None:
        """What is being saved steps behind nobody: it is ended if that takes too long."""
        self._saving = saving
        if self._footprint.cgroup is not None and self._behind and not self._footprint.struck:
            self._footprint.cgroup.step_behind(not saving)

    def usage(self) -> Usage:
        try:
            sample = self._measure()
        except (SentryGone, OSError):  # it has ended: what was last seen
            sample = self._sample
        return Usage(cpu_seconds=sample.cpu_seconds, memory=sample.memory, memory_peak=self._peak, disk=sample.disk)

    def _look(self) -> float | None:
        """In the watcher's thread: sample, and end the cell if it is beyond a limit."""
        try:
            sample = self._measure()
        except SentryGone:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, limits that cannot be read are not kept
            return self._unread(error)
        self._unreadable = 0
        self._rebind_gofer()
        excess = exceeded(sample, self._caps)
        if excess is None:
            return next_look(sample, self._caps)
        self._life.end(*excess)
        return None

    def _rebind_gofer(self) -> None:
        """The first look is at once. By the second the cell has started, and its gofer goes back to the cell's CPUs."""
        self._looks += 1
        if self._looks == 2:
            try:
                self._footprint.move_gofer(self._footprint.cpus)
            except OSError:  # no descriptor is free, say: at the next look again
                self._looks = 1

    def _unread(self, error: Exception) -> float | None:
        """A process that is just ending may not be read any more. One that goes on is ended: limits that cannot be read
        are not kept."""
        self._unreadable += 1
        if self._unreadable <= ENDING_LOOKS:
            return SHORTEST
        why = error.strerror if isinstance(error, OSError) else error
        self._life.end(EndReason.BOUNDARY_LOST, f"its usage can no longer be read: {why}")
        return None

    def _measure(self) -> Sample:
        self._sample = sample = self._meter.sample()
        self._peak = max(self._peak, sample.memory)
        return sample


class _Body:
    """A footprint that is being measured, for ``CellLife``."""

    def __init__(self, footprint: Footprint, meter: Meter, memory_cap: int) -> None:
        assert footprint.child is not None
        self._footprint = footprint
        self._meter = meter
        self._memory_cap = memory_cap
        self._child = footprint.child

    @property
    def process(self) -> Child:
        return self._child

    def strike(self) -> None:
        self._footprint.strike()

    def natural_end(self) -> CellEnd:
        code, counters, said = self._footprint.reap()
        return natural_end(code, counters, self._memory_cap, last_words(said))

    def clear(self) -> None:
        self._meter.close()
        self._footprint.clear()
