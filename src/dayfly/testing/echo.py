"""Talking to the stand-in agent of the boundary contract kit; see ``echo_agent``."""

from __future__ import annotations

import asyncio
import json
import zipapp
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import CellStream

__all__ = ["Echo", "InsideError", "build_echo_agent"]

READ = 1 << 20
"""Bytes asked for at once: what a pipe holds."""


class InsideError(Exception):
    """The code that a test ran inside raised; ``str`` is its name and text."""


def build_echo_agent(directory: Path) -> Path:
    """Pack the stand-in agent as a zipapp into ``directory``."""
    agent = directory / "echo_agent.pyz"
    zipapp.create_archive(Path(__file__).with_name("echo_agent"), agent)
    agent.chmod(0o644)
    return agent


class Echo:
    """Gives orders to the stand-in agent behind ``stream``. One at a time."""

    def __init__(self, stream: CellStream) -> None:
        self._stream = stream
        self._held = b""

    async def run(self, code: str) -> list[Any]:
        """Execute ``code`` inside; the values that it ``reply``\\ s. Raises ``InsideError``, ``EOFError``."""
        await self._order({"run": code})
        values: list[Any] = []
        while True:
            answer = json.loads(await self._line())
            if isinstance(answer, dict) and answer.keys() == {"done"}:
                return values
            if isinstance(answer, dict) and answer.keys() == {"error"}:
                raise InsideError(answer["error"])
            values.append(answer)

    async def start(self, code: str) -> None:
        """Execute ``code`` inside without waiting for its end: it may never come."""
        await self._order({"run": code})

    async def answer(self) -> Any:
        """The next value that started code ``reply``\\ s."""
        return json.loads(await self._line())

    async def echo(self, data: bytes, piece: int = READ) -> bytes:
        """Send ``data`` in pieces and read as many bytes back, both at once."""
        await self._order({"echo": len(data)})
        received, _ = await asyncio.gather(self._exactly(len(data)), self._send(data, piece))
        return received

    async def echo_at_once(self, *buffers: bytes | bytearray | memoryview) -> bytes:
        """Send all of ``buffers`` in one write and read as many bytes back."""
        count = sum(map(len, buffers))
        await self._order({"echo": count})
        await self._stream.write(*buffers)
        return await self._exactly(count)

    async def _order(self, order: dict[str, object]) -> None:
        await self._stream.write(json.dumps(order).encode() + b"\n")

    async def _send(self, data: bytes, piece: int) -> None:
        view = memoryview(data)
        for start in range(0, len(data), piece):
            await self._stream.write(view[start : start + piece])

    async def _exactly(self, count: int) -> bytes:
        pieces = [self._held[:count]]
        self._held = self._held[count:]
        missing = count - len(pieces[0])
        while missing:
            pieces.append(await self._some(min(missing, READ)))
            missing -= len(pieces[-1])
        return b"".join(pieces)

    async def _line(self) -> bytes:
        while b"\n" not in self._held:
            self._held += await self._some(READ)
        line, _, self._held = self._held.partition(b"\n")
        return line

    async def _some(self, limit: int) -> bytes:
        data = await self._stream.read(limit)
        if not data:
            raise EOFError("the stream ended")
        return data
