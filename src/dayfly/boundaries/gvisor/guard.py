"""Keeps a cell's sampled limits: what has been exceeded, and when to look again. Pure.

The next look is due when the fastest possible growth could reach a limit, so an idle or small cell is looked at rarely
and one near its limit every 50 ms, with the same overshoot.
"""

from __future__ import annotations

from dataclasses import dataclass

from dayfly.boundaries.gvisor.meter import Sample
from dayfly.limits import GIB, MIB, Limits
from dayfly.spec import EndReason

__all__ = ["SHORTEST", "Caps", "exceeded", "next_look"]

SHORTEST = 0.05
"""Seconds between looks at a cell near a limit."""

LONGEST = 1.0
"""Seconds between looks at any cell, which bounds how late an out-of-memory kill of only a part of it is noticed."""

GROWTH = 2 * GIB
"""Bytes a second and CPU that guest memory or the writable layer can grow by; 1.3 GB/s was measured."""


@dataclass(frozen=True)
class Caps:
    """``memory`` and ``disk`` in bytes, ``cpu_seconds`` over the cell's life; ``cpus`` how many may be busy at once."""

    memory: int
    disk: int
    cpu_seconds: float
    cpus: int

    @classmethod
    def of(cls, limits: Limits, memory: int, cpus: int) -> Caps:
        return cls(memory, limits.disk, limits.cpu_seconds, cpus)


def exceeded(sample: Sample, caps: Caps) -> tuple[EndReason, str] | None:
    """The limit that the cell is beyond, and a line for a person."""
    if sample.oom_kills:
        return EndReason.MEMORY_LIMIT, "the kernel ended a part of it: out of memory"
    if sample.pids_refused:
        return EndReason.PROCESS_LIMIT, "the kernel refused it another process or thread"
    if sample.memory > caps.memory:
        return EndReason.MEMORY_LIMIT, f"it held {sample.memory // MIB} MiB"
    if sample.disk > caps.disk:
        return EndReason.DISK_LIMIT, f"it had written {sample.disk // MIB} MiB to disk"
    if sample.cpu_seconds > caps.cpu_seconds:
        return EndReason.CPU_LIMIT, f"it had used {sample.cpu_seconds:.1f} s of CPU time"
    return None


def next_look(sample: Sample, caps: Caps) -> float:
    """Seconds until the next sample."""
    growth = GROWTH * caps.cpus
    soonest = min(
        (caps.memory - sample.memory) / growth,
        (caps.disk - sample.disk) / growth,
        (caps.cpu_seconds - sample.cpu_seconds) / caps.cpus,
    )
    return min(LONGEST, max(SHORTEST, soonest))
