"""Ending a run: SIGINT, then SIGKILL for what it started, then for the kernel; always what is older is spared."""

from __future__ import annotations

import time

from dayfly.agent.census import in_ticks
from dayfly.agent.killing import crowded, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from dayfly.agent.kernels.contexts import Context
    from dayfly.agent.kernels.execution import Execution
    from dayfly.agent.kernels.kernel import Kernel
    from dayfly.agent.loop import Timer
else:
    import _signal as signal  # see loop.py

ANSWER_SECONDS = 0.2
"""For a kernel that was waiting for a process which is dead now: to see it, and to answer."""


JUST_BORN = 2
"""Ticks (10 ms) of a process's life in which it may lose a SIGINT, where it can at all."""


class Stop:
    """One run being ended. ``cause`` is the status that its answer will have."""

    def __init__(self, context: Context, kernel: Kernel, execution: Execution, cause: str) -> None:
        self.cause = cause
        self._context = context
        self._kernel = kernel
        self._execution = execution
        self._timer: Timer | None = None
        self._killing = False
        self._asked = False
        self._grace = 0.0
        self._heard: set[int] | None = None  # who got SIGINT and cannot have lost it; None: nobody is asked again

    def begin(self, grace: float) -> None:
        """Ask, and use force after ``grace`` seconds. In a crowd, as a fork bomb is, the order is the other way round."""
        self._grace = grace
        self._context.loop.call_later(grace / 2, self._half_way)
        if self._execution.ended:  # the answer was there already: what is still armed now would hit the next run
            return
        if crowded():
            self._kill_started()
            return
        self._ask()
        heard = self._interrupt(set())
        if self._kernel.loses_interrupts:
            self._heard = heard
        self._later(grace, self._kill_started)

    def _interrupt(self, spared: set[int]) -> set[int]:
        """SIGINT to what the run started; who of them is old enough to have heard it."""
        heard = set()
        newborn = in_ticks(time.monotonic()) - JUST_BORN
        for one in self._context.members_since(self._execution.since):
            if one.pid != self._kernel.pid and one.pid not in spared:
                send_signal(one.pid, signal.SIGINT)
                if one.started < newborn:
                    heard.add(one.pid)
        return heard

    def _half_way(self) -> None:
        self._execution.discard()
        if self._heard is not None and not self._execution.ended and not self._killing and not crowded():
            self._interrupt(self._heard)

    def _ask(self) -> None:
        self._asked = True
        self._kernel.interrupt()

    def answered(self) -> None:
        """The kernel has ended the cell by itself: it stays, with its state."""
        self._disarm()
        self._kill_started()

    def kernel_died(self) -> None:
        self._disarm()
        self._kill_started()

    def _kill_started(self) -> None:
        if not self._killing:
            self._killing = True
            self._context.kill_since(self._execution.since, self._killed)

    def _killed(self, killed: int, left: int) -> None:
        self._killing = False
        if self._execution.answer is None and self._kernel.alive:
            if self._asked and killed:  # it breaks off just now, and a SIGINT in that moment would end node
                self._later(ANSWER_SECONDS, self._ask_for_the_last_time)
            else:
                self._ask_for_the_last_time()
        else:
            self._execution.cleared(killed, left)

    def _ask_for_the_last_time(self) -> None:
        patience = ANSWER_SECONDS if self._asked else max(self._grace, ANSWER_SECONDS)
        self._ask()
        self._later(patience, self._kernel.kill)

    def _later(self, seconds: float, callback: object) -> None:
        self._timer = self._context.loop.call_later(seconds, callback)  # type: ignore[arg-type]

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
