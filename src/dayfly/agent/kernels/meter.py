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

VERY_SHORT = 0.002
"""Seconds of a run that counts as none: gVisor counts CPU in ticks of 10 ms, and what it used is in the next one's sum."""

CROWD_PAUSE = 5.0
"""Seconds without a look while there is a crowd: where hundreds fight for the CPU, one takes the agent 2 s."""

CPUS = os.cpu_count() or 1  # asked once: it is a file, 100 us inside gVisor

STOP_GRACE = 0.3
"""Seconds between SIGINT and SIGKILL for a run that used too much."""


class Meter:
    """Ends the run when it has used more than ``cap`` seconds.

    Law: never more than the time that passed on all CPUs. (gVisor counts by ticks whoever could run, which with hundreds of
    processes adds up to much more.) Within that, what the kernel's threads used since the run before counts too: asking at
    the beginning would be one more system call in every run.
    """

    def __init__(self, context: Context, kernel: Kernel, cap: float, execution: Execution) -> None:
        self._context = context
        self._kernel = kernel
        self._cap = cap
        self._execution = execution
        self._own = kernel.cpu_known
        self._used = 0.0
        self._stopped = False
        self._last: float | None = None  # the context's total at the last look
        self.began = self._looked = context.loop.time()
        self._timer = self._look_at(self.began + LOOK)

    def stop(self) -> None:
        self._stopped = True
        self._timer.cancel()
        if self._last is not None:
            self._kernel.cpu_seconds()  # that the next run begins with

    def seconds(self) -> float:
        """What is known to have been used."""
        passed = self._context.loop.time() - self.began
        if self._last is not None or not self._kernel.alive or passed < VERY_SHORT:
            return self._used
        return _possible(self._kernel.cpu_seconds() - self._own, passed)

    def _look(self) -> None:
        began = time.monotonic()
        if began - self._looked < CROWD_PAUSE and crowded():
            self._timer = self._look_at(began + LOOK)
            return
        total = self._context.cpu_seconds()
        if self._last is None:  # what the context's processes used before the run cannot be told any more
            self._used = self.seconds()
        else:
            self._used += _possible(total - self._last, began - self._looked)
        self._last, self._looked = total, began
        if self._used > self._cap:
            self._execution.end("cpu_limit", STOP_GRACE)
        if self._stopped:  # that was its end
            return
        now = time.monotonic()
        self._timer = self._look_at(now + max(LOOK, LOOK_SHARE * (now - began)))

    def _look_at(self, due: float) -> Timer:
        return self._context.loop.call_at(due, self._execution.channel.guarded(self._look))


def _possible(seconds: float, passed: float) -> float:
    return max(0.0, min(seconds, passed * CPUS))
