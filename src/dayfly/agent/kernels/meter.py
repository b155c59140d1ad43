"""The CPU time of one run: its kernel's own for a short one, that of all its processes for a longer one."""

from __future__ import annotations

import os
import time

from dayfly.agent.killing import crowded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.contexts import Context
    from dayfly.agent.kernels.execution import Execution
    from dayfly.agent.kernels.kernel import Kernel
    from dayfly.agent.loop import Timer

LOOK = 0.1
"""Seconds between two looks at a run's CPU; a shorter run costs no look at all."""

LOOK_SHARE = 20.0
"""Looks may take a twentieth of the time: with hundreds of processes each one reads hundreds of files."""

CROWD_PAUSE = 5.0
"""Seconds without a look while there is a crowd: where hundreds fight for the CPU, one takes the agent 2 s."""

CPUS = os.cpu_count() or 1  # asked once: it is a file, 100 us inside gVisor

STOP_GRACE = 0.3
"""Seconds between SIGINT and SIGKILL for a run that used too much."""


class Meter:
    """Ends the run when it has used more than ``cap`` seconds.

    Law: never more than the time that passed on all CPUs. (gVisor counts by ticks whoever could run, which with hundreds of
    processes adds up to much more.)
    """

    def __init__(self, context: Context, kernel: Kernel, cap: float, execution: Execution) -> None:
        self._context = context
        self._kernel = kernel
        self._cap = cap
        self._execution = execution
        self._own = kernel.cpu_seconds()
        self._used = 0.0
        self._last: float | None = None  # the context's total at the last look
        self._began = self._looked = time.monotonic()
        self._timer: Timer | None = None
        self._look_later(LOOK)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def seconds(self) -> float:
        """What is known to have been used."""
        if self._last is not None or not self._kernel.alive:
            return self._used
        return self._possible(self._kernel.cpu_seconds() - self._own, self._began)

    def _possible(self, seconds: float, since: float) -> float:
        return max(0.0, min(seconds, (time.monotonic() - since) * CPUS))

    def _look(self) -> None:
        began = time.monotonic()
        self._execution.announce()
        if began - self._looked < CROWD_PAUSE and crowded():
            self._look_later(LOOK)
            return
        total = self._context.cpu_seconds()
        if self._last is None:  # what the context's processes used before the run cannot be told any more
            self._used = self.seconds()
        else:
            self._used += self._possible(total - self._last, self._looked)
        self._last, self._looked = total, began
        if self._used > self._cap:
            self._execution.end("cpu_limit", STOP_GRACE)
        self._look_later(max(LOOK, LOOK_SHARE * (time.monotonic() - began)))

    def _look_later(self, seconds: float) -> None:
        look = self._execution.channel.guarded(self._look)
        self._timer = self._context.loop.call_later(seconds, look)
