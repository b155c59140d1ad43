"""A piece of work that something else may put an end to, without a task of its own: one costs a twentieth of a millisecond, and a
turn of the loop before anything happens."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Interrupted", "unless"]

T = TypeVar("T")


class Interrupted(Exception):
    """What would have come of the work does not matter any more."""


async def unless(over: asyncio.Future[Any], work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns or raises. Raises ``Interrupted`` once ``over`` is done, also if that is so in the same moment; ``work``
    was told by a ``CancelledError`` then, and is no more."""
    if over.done():
        work.close()
        raise Interrupted
    interruption = _Interruption()
    over.add_done_callback(interruption)
    try:
        result = await work
    except asyncio.CancelledError:
        if interruption.taken_back():
            raise Interrupted from None
        raise
    except Exception:
        if over.done():
            interruption.taken_back()
            raise Interrupted from None
        raise
    finally:
        interruption.over = True
        over.remove_done_callback(interruption)
    if over.done():
        interruption.taken_back()
        raise Interrupted
    return result


class _Interruption:
    """Cancels the task that it was made in."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.over = False  # it may be on its way to be called when the work has ended by itself
        self._task = task
        self._before = task.cancelling()
        self._done = False

    def __call__(self, _: asyncio.Future[Any]) -> None:
        if not self.over:
            self._done = self._task.cancel()

    def taken_back(self) -> bool:
        """Whether nobody else has cancelled the task."""
        if self._done:
            self._done = False
            return self._task.uncancel() <= self._before
        return False
