"""What a caller may hand over as the content of a file, and how it becomes pieces of bytes."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

from dayfly.client.arguments import bytes_of
from dayfly.client.worker import Worker
from dayfly.errors import InputError

__all__ = ["Content", "Readable", "pieces"]

PIECE = 256 * 1024
"""Bytes of one piece: large enough that handing it over costs little, small enough that a few of them are nothing."""


class Readable(Protocol):
    """An open binary file."""

    def read(self, size: int, /) -> bytes: ...


Content = str | bytes | bytearray | memoryview | Readable | Iterable[bytes] | AsyncIterable[bytes]
"""Text is written as UTF-8. Iterables and files are read on a thread of their own, a piece at a time."""


async def pieces(content: Content) -> AsyncIterator[bytes]:
    """``content`` as non-empty pieces of at most ``PIECE`` bytes. Raises ``InputError`` for anything else."""
    if isinstance(content, str):
        content = bytes_of("the content", content)
    if isinstance(content, (bytes, bytearray, memoryview)):
        for piece in _cut(content):
            yield piece
    elif isinstance(content, AsyncIterable):
        async for item in content:
            for piece in _cut(item):
                yield piece
    else:
        async with Worker("content") as worker:
            take = _taker(content)
            while chunk := await worker.do(take):
                for piece in _cut(chunk):
                    yield piece


def _cut(data: object) -> Iterator[bytes]:
    data = _require_bytes(data)
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])


def _taker(content: object) -> Callable[[], bytes]:
    """A function that gives some bytes of a file or an iterable at every call, and ``b""`` at its end."""
    if hasattr(content, "read"):
        file = cast(Readable, content)
        return lambda: _read(file)
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        raise InputError(
            f"a file's content is text, bytes, a binary file or an iterable of bytes, not {type(content).__name__}",
            remedy="json.dumps(...) makes text of an object" if isinstance(content, (Mapping, int, float)) else None,
        )
    items: Iterator[Any] = iter(content)

    def gather() -> bytes:  # many small items make one piece
        found = bytearray()
        while len(found) < PIECE and (item := next(items, None)) is not None:
            found += _require_bytes(item)
        return bytes(found)

    return gather


def _read(file: Readable) -> bytes:
    data: object = file.read(PIECE)
    if data is None:
        raise InputError("the file is in non-blocking mode")
    if isinstance(data, str):
        raise InputError("the file gives text", remedy="open it in binary mode")
    return _require_bytes(data)


def _require_bytes(data: object) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError(f"the pieces of a file's content must be bytes, not {type(data).__name__}")
    return bytes(data)
