"""Async iterators of bytes: closed when left, capped, fed from a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from dayfly.client.worker import Worker
from dayfly.errors import FileProblem, SandboxFileError

__all__ = ["capped", "closing", "pouring", "reading"]

T = TypeVar("T")

READ_PIECE = 1024 * 1024
"""Bytes of one read of a local file: the way to the thread and back costs as much as reading some 100 KiB."""


@asynccontextmanager
async def closing(source: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close a generator when the block is left, however; what it holds inside is then given up at once, not at the
    garbage collector's pleasure."""
    try:
        yield source
    finally:
        aclose = getattr(source, "aclose", None)
        if aclose is not None:
            await aclose()


async def capped(source: AsyncIterator[bytes], path: str, limit: int | None) -> AsyncIterator[bytes]:
    """The pieces, unless they are more than ``limit`` bytes: the size that the sandbox told is only a claim."""
    size = 0
    async with closing(source):
        async for chunk in source:
            size += len(chunk)
            if limit is not None and size > limit:
                raise SandboxFileError(
                    FileProblem.TOO_LARGE, path, f"more than {limit} bytes", remedy="limit= allows more"
                )
            yield chunk


async def pouring(source: AsyncIterator[bytes], worker: Worker, write: Callable[[bytes], object]) -> int:
    """Have ``write`` called on the worker's thread with every piece; returns their bytes. The next piece is fetched while
    one is written; there are never more than these two."""
    size = 0
    writing: asyncio.Future[object] | None = None
    try:
        async with closing(source) as chunks:
            async for chunk in chunks:
                if writing is not None:
                    await writing
                size += len(chunk)
                writing = asyncio.ensure_future(worker.do(write, chunk))
        if writing is not None:
            await writing
    except BaseException:
        if writing is not None:
            writing.cancel()  # the write itself goes on; what the worker does next comes after it
            await asyncio.gather(writing, return_exceptions=True)
        raise
    return size


async def reading(worker: Worker, read: Callable[[int], bytes]) -> AsyncIterator[bytes]:
    """What ``read`` gives, called on the worker's thread until it gives nothing; one piece ahead of its taker."""
    coming = asyncio.ensure_future(worker.do(read, READ_PIECE))
    try:
        while chunk := await coming:
            coming = asyncio.ensure_future(worker.do(read, READ_PIECE))
            yield chunk
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
