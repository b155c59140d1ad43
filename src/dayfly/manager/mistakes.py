"""Work in the background that should never end by itself: what ends it is a mistake in this program, and is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["telling"]


def telling(what: str) -> Callable[[asyncio.Task[None]], None]:
    """A callback for such a task that tells its loop ``what`` has happened."""

    def tell(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error, "task": task})

    return tell
