"""Whether sandboxes can be made here, looked at now and then and not by every caller: ``/readyz`` wants no key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["Readiness"]

LOOK_SECONDS = 10.0
"""Between looks: a look starts processes, and whoever balances load asks every second."""


class Readiness:
    """``look`` says what is wrong, or ``None``; it may block. ``clock`` is monotonic, in seconds."""

    def __init__(self, look: Callable[[], str | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._next = float("-inf")
        self._found: str | None = None
        self._looking = asyncio.Lock()

    async def __call__(self) -> str | None:
        """Why not, or ``None``."""
        async with self._looking:
            if self._clock() >= self._next:
                self._found = await asyncio.to_thread(self._look)
                self._next = self._clock() + LOOK_SECONDS
        return self._found
