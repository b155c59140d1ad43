"""Why a cell ended by itself, from what the host saw of it. Pure."""

from __future__ import annotations

import signal

from dayfly.boundaries.base import CellEnd
from dayfly.boundaries.gvisor.cgroups import Counters
from dayfly.spec import EndReason

__all__ = ["natural_end"]

_NEAR = 0.9
"""Share of its cap that a cell's memory has reached at least once if the cap is what the kernel killed it for."""


_RUNSC_FAILED = 128
"""runsc's exit code for an error of its own."""


def natural_end(code: int, counters: Counters, memory_cap: int, said: str) -> CellEnd:
    """``code`` is runsc's return code: the agent's own, 128 + a signal, or minus the signal that killed runsc itself."""
    if counters.oom_kills:
        peak = counters.memory_peak
        if peak is None or peak >= memory_cap * _NEAR:
            return CellEnd(EndReason.MEMORY_LIMIT, "the kernel ended it: out of memory")
        return CellEnd(EndReason.BOUNDARY_LOST, "killed because the host itself ran out of memory")
    if counters.pids_refused:
        return CellEnd(EndReason.PROCESS_LIMIT, "the kernel refused another process or thread")
    if code < 0:
        return CellEnd(EndReason.BOUNDARY_LOST, f"runsc was killed by {_signal(-code)}")
    if code == _RUNSC_FAILED:
        return CellEnd(EndReason.BOUNDARY_LOST, f"gVisor failed: {said}")
    if code - 128 in (signal.SIGKILL, signal.SIGTERM):  # nobody inside may send these to the agent
        return CellEnd(EndReason.BOUNDARY_LOST, f"killed by {_signal(code - 128)}")
    how = f"killed by {_signal(code - 128)}" if code > 128 else f"exit code {code}"
    return CellEnd(EndReason.CRASHED, f"the agent ended: {how}" + (f": {said}" if said else ""))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal, or an exit code that only looks like one
        return f"signal {number}"
