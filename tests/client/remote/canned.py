"""Servers that are none of dayfly's: one that answers what a test tells it to, and a reverse proxy with a base path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from dayfly.policy import Policy

SANDBOX = {
    "id": "a" * 32, "state": "ready", "end_reason": None, "end_detail": "", "conversation": None, "template": None,
    "created": 1.0, "expires": 2.0, "policy": Policy().model_dump(mode="json"), "limits": [], "languages": ["python"],
}  # fmt: skip


def answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer: bytes as they are, anything else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} Said", f"content-length: {len(data)}", "connection: close"]
    return (
        "\r\n".join([*head, *(f"{name}: {value}" for name, value in (headers or {}).items()), "", ""]).encode() + data
    )


def broken_off(body: bytes) -> bytes:
    """The beginning of an answer, whose rest never comes."""
    return b"HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\nconnection: close\r\n\r\n" + body


def lines(*events: Mapping[str, object]) -> bytes:
    """NDJSON with its numbers, as an answer."""
    numbered = ({"n": number, **event} for number, event in enumerate(events, 1))
    return answer(b"".join(json.dumps(event).encode() + b"\n\n" for event in numbered))


@dataclass
class Canned:
    """Answers each request with the next of ``answers``, and the last one again and again; keeps what was asked."""

    url: str = ""
    answers: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    endless: bytes = b""  # sent after the last answer until the client is gone
    sent: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            last = len(self.answers) == 1
            writer.write(self.answers[0] if last else self.answers.pop(0))
            await writer.drain()
            while self.endless and last:
                writer.write(self.endless)
                await writer.drain()
                self.sent += len(self.endless)
        writer.close()


@asynccontextmanager
async def canned(*answers: bytes, endless: bytes = b"") -> AsyncIterator[Canned]:
    one = Canned(answers=list(answers), endless=endless)
    async with await asyncio.start_server(one.serve, "127.0.0.1", 0) as server:
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield one


@dataclass
class Proxy:
    """Passes on what comes for paths below ``prefix``, one request for each connection. ``cut`` cuts what is open."""

    upstream: int
    prefix: str
    url: str = ""
    heads: list[str] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.heads.append(head)
            first, _, rest = head.partition("\r\n")
            method, _, path = first.partition(" ")
            if not path.startswith(self.prefix):
                writer.write(answer(b"<h1>Not Found</h1>", 404))
                await writer.drain()
            else:
                closing = "" if "upgrade:" in rest.lower() else "connection: close\r\n"
                rest = "".join(
                    f"{line}\r\n"
                    for line in rest.split("\r\n")[:-2]
                    if closing == "" or "connection:" not in line.lower()
                )
                await self._pass_on(f"{method} {path.removeprefix(self.prefix)}\r\n{closing}{rest}\r\n", reader, writer)
        self.open.discard(writer)
        writer.close()

    async def _pass_on(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", self.upstream)
        to.write(head.encode("latin-1"))
        ways = {asyncio.ensure_future(_pipe(reader, to)), asyncio.ensure_future(_pipe(there, writer))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to.close()

    def cut(self) -> None:
        """The client's side of every connection breaks off."""
        for writer in self.open:
            writer.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def proxy(upstream: int, prefix: str) -> AsyncIterator[Proxy]:
    one = Proxy(upstream, prefix)
    async with await asyncio.start_server(one.serve, "127.0.0.1", 0) as server:
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{prefix}"
        yield one
