"""What comes in bulk is dealt with one stream at a time: on a loop with many of them, whoever wants little waits for one of
the others and not for all."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

__all__ = ["BULK", "Turns", "turns"]

BULK = 16 * 1024
"""Bytes read at once that wait for their turn. Handing on 64 KiB takes a server a millisecond or two, a small answer a tenth."""


MUCH, LITTLE = 512 * 1024, 64 * 1024
"""Bytes of a piece: of a stream by itself, where fewer and larger ones are faster, and of one among several."""

BETWEEN = 4
"""Turns of the loop from one piece to the next: an answer takes some fifteen, and an empty one a fiftieth of a piece's time."""


class Turns:
    """Of one loop."""

    def __init__(self) -> None:
        self._taken = asyncio.Lock()
        self._waiting = 0

    @property
    def piece(self) -> int:
        """Bytes to read at once: less where others wait for their turn."""
        return MUCH if self._waiting == 0 else LITTLE

    async def next(self) -> None:
        """Return so that ``BETWEEN`` turns of the loop have passed since any other caller did; in the order of the calls."""
        self._waiting += 1
        try:
            await self._taken.acquire()
        finally:
            self._waiting -= 1
        self._pass(BETWEEN)

    def _pass(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._pass, turns - 1)
        else:
            self._taken.release()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns() -> Turns:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _turns:
        _turns[loop] = Turns()
    return _turns[loop]
