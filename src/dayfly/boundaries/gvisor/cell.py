"""One running gVisor sandbox, seen from an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from dayfly.boundaries.base import CellEnd
from dayfly.boundaries.gvisor.ending import last_words, natural_end
from dayfly.boundaries.gvisor.footprint import Footprint
from dayfly.boundaries.gvisor.guard import Caps, exceeded, next_look
from dayfly.boundaries.gvisor.meter import Meter, Sample, SentryGone
from dayfly.boundaries.gvisor.start import Started
from dayfly.boundaries.gvisor.watcher import watch
from dayfly.boundaries.pipes import PipeStream
from dayfly.spec import EndReason, LimitReport, Usage

__all__ = ["GvisorCell"]


class GvisorCell:
    """Made by ``GvisorBoundary.open``, on the loop that will use it."""

    def __init__(
        self,
        cell_id: str,
        started: Started,
        meter: Meter,
        caps: Caps,
        limits: tuple[LimitReport, ...],
        explanation: Mapping[str, Any],
    ) -> None:
        self._id = cell_id
        self._footprint: Footprint = started.footprint
        self._stream = started.stream
        self._meter = meter
        self._caps = caps
        self._limits = limits
        self._explanation = explanation
        self._deciding = threading.Lock()
        self._decided: CellEnd | None = None
        self._sample = Sample(0, 0, 0.0)
        self._peak = 0
        self._end = asyncio.ensure_future(self._supervise())
        watch(self._look)

    def __repr__(self) -> str:
        state = self._end.result().reason.value if self._end.done() and not self._end.cancelled() else "running"
        return f"<GvisorCell {self._id[:12]} {state}>"

    @property
    def id(self) -> str:
        return self._id

    @property
    def stream(self) -> PipeStream:
        return self._stream

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        return self._limits

    def explain(self) -> Mapping[str, Any]:
        return self._explanation

    # --- its end ------------------------------------------------------------------------------------------------------

    async def wait(self) -> CellEnd:
        return await asyncio.shield(self._end)

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        self._decide(reason, detail)
        self._stream.close()
        self._footprint.strike()
        return await self.wait()

    async def close(self, grace: float) -> CellEnd:
        self._decide(EndReason.STOPPED, "")
        self._stream.close()
        try:
            async with asyncio.timeout(grace):
                return await self.wait()
        except TimeoutError:
            return await self.kill()

    def _decide(self, reason: EndReason, detail: str) -> None:
        """Say why it will have ended, unless that is settled: by an earlier reason, or because it has ended already."""
        child = self._footprint.child
        with self._deciding:
            if self._decided is None and child is not None and not child.wait(0):
                self._decided = CellEnd(reason, detail)

    async def _supervise(self) -> CellEnd:
        """Wait for runsc's end, whoever brings it about, and clear up."""
        child = self._footprint.child
        assert child is not None
        try:
            await child.ended()
            code, counters, said = self._footprint.reap()
            end = self._decided or natural_end(code, counters, self._caps.memory, last_words(said))
            await asyncio.to_thread(self._clear)
            return end
        except asyncio.CancelledError:  # the loop is shutting down: there will be no other moment
            self._clear()
            raise

    def _clear(self) -> None:
        self._meter.close()
        self._footprint.clear()

    # --- its limits ---------------------------------------------------------------------------------------------------

    def _look(self) -> float | None:
        """In the watcher's thread: sample, and end the cell if it is beyond a limit."""
        try:
            sample = self._measure()
        except SentryGone:
            return None
        except OSError as error:  # fail closed: limits that cannot be read are not kept
            self._decide(EndReason.BOUNDARY_LOST, f"its usage can no longer be read: {error.strerror}")
            self._footprint.strike()
            return None
        excess = exceeded(sample, self._caps)
        if excess is None:
            return next_look(sample, self._caps)
        self._decide(*excess)
        self._footprint.strike()
        return None

    def _measure(self) -> Sample:
        self._sample = sample = self._meter.sample()
        self._peak = max(self._peak, sample.memory)
        return sample

    def usage(self) -> Usage:
        try:
            sample = self._measure()
        except (SentryGone, OSError):  # it has ended: what was last seen
            sample = self._sample
        return Usage(cpu_seconds=sample.cpu_seconds, memory=sample.memory, memory_peak=self._peak, disk=sample.disk)
