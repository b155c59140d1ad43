"""When a cell is frozen: a sandbox in which nothing runs costs no CPU, and thaws within a millisecond when it is used.

An idle gVisor uses 2 to 4 % of a core by itself. Frozen is what nobody has used yet, and what was used when its agent says
that nothing goes on inside: no command, no thread or timer of a kernel's. An agent that lies about that harms itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dayfly.boundaries.base import Cell
from dayfly.sandbox.inside import FAILURES

__all__ = ["FREEZE_SECONDS", "IDLE_SECONDS", "Rest"]

FREEZE_SECONDS = 3.0
"""After the opening: a first kernel has started by then."""

IDLE_SECONDS = 0.1
"""After the last call: who goes on at once pays nothing. Not more, because of crowds: of 200 that were each called once in
turn, at 3 s the slowest answered after 800 ms, since a hundred were still awake, and at 0.1 s after 50."""

MOST_SECONDS = 60.0
"""Between questions to an agent in whose sandbox something goes on; they double up to this."""

_UNANSWERED: tuple[type[Exception], ...] = (TimeoutError, *FAILURES)


class Rest:
    """Freezes one cell when it may, on the running loop. ``is_busy`` asks inside; one that cannot be asked is left running."""

    def __init__(self, cell: Cell, is_busy: Callable[[], Awaitable[bool]]) -> None:
        self._cell = cell
        self._is_busy = is_busy
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self.frozen = False
        self._pause = FREEZE_SECONDS

    def now(self) -> None:
        """Freeze it: nobody has used it, and it is as ready as it will be."""
        self._clear()
        self._freeze()

    def later(self, *, used: bool) -> None:
        """Nobody needs it for now. One that was used is asked first."""
        self._clear()
        self._pause = IDLE_SECONDS if used else FREEZE_SECONDS
        act = self._ask if used else self._freeze
        self._timer = asyncio.get_running_loop().call_later(self._pause, act)

    def wake(self) -> None:
        """It is needed. Costs nothing for one that is awake."""
        self._clear()
        if self.frozen:
            self.frozen = False
            self._cell.thaw()

    def end(self) -> None:
        """It is gone."""
        self._clear()

    def _freeze(self) -> None:
        self.frozen = True
        self._cell.freeze()

    def _ask(self) -> None:
        self._asking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            busy = await self._is_busy()
        except _UNANSWERED:  # whoever calls next hears of it
            return
        self._asking = None  # from here on nothing waits
        if busy:
            self._pause = min(2 * self._pause, MOST_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._ask)
        else:
            self._freeze()

    def _clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
