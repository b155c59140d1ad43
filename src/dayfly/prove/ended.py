"""The end of a process that nobody listens to any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["gone"]

PIECE = 1024 * 1024


async def gone(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Wait for one that was told to end, for so long at most. What it still says is read and dropped: the end of a process may not be seen before
    that of its pipes, and what nobody reads has none."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for stream in (process.stdout, process.stderr):
                while stream is not None and await stream.read(PIECE):
                    pass
            await process.wait()
