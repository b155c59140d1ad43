"""Servers that real clients talk to: HTTP/2, WebSocket, PostgreSQL as far as its beginning goes."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import closing, suppress
from pathlib import Path

import h2.connection
import h2.events
from websockets.asyncio.server import ServerConnection

__all__ = ["SSL_REQUEST", "Http2", "Postgres", "say_back", "tls_of"]

SSL_REQUEST = (8, 80877103)


def tls_of(certificate: Path, *protocols: str) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(certificate, certificate.with_name("key"))
    if protocols:
        made.set_alpn_protocols(list(protocols))
    return made


async def say_back(connection: ServerConnection) -> None:
    """WebSocket: everything again, with the name that was asked for before it."""
    await connection.send(str(connection.request.headers["Host"]) if connection.request else "?")
    async for message in connection:
        await connection.send(message)


class Http2:
    """Answers each stream with what it was asked. ``authorities``: what was said as ``:authority``."""

    def __init__(self) -> None:
        self.authorities: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError), closing(writer):
            await self._talk(reader, writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding=None, validate_inbound_headers=False)
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    self._answer(connection, event)
            writer.write(connection.data_to_send())
            await writer.drain()

    def _answer(self, connection: h2.connection.H2Connection, event: h2.events.RequestReceived) -> None:
        fields = {bytes(name): bytes(value) for name, value in event.headers or ()}
        self.authorities.append(fields.get(b":authority", b""))
        body = fields.get(b":authority", b"") + b" " + fields.get(b":path", b"") + b" over HTTP/2"
        assert event.stream_id is not None
        connection.send_headers(event.stream_id, [(":status", "200"), ("content-length", str(len(body)))])
        connection.send_data(event.stream_id, body, end_stream=True)


class Postgres:
    """The start of its protocol byte by byte (version 3.0), over TLS only, and one answer for every query."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self.started: list[dict[bytes, bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError), closing(writer):
            if await self._began_with_tls(reader, writer):
                await self._session(reader, writer)

    async def _began_with_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(8)
        if (int.from_bytes(first[:4], "big"), int.from_bytes(first[4:], "big")) != SSL_REQUEST:
            return False
        writer.write(b"S")
        await writer.start_tls(self._tls)
        return True

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
        words = startup[4:].rstrip(b"\0").split(b"\0")
        self.started.append(dict(zip(words[::2], words[1::2], strict=False)))
        writer.write(
            _message(b"R", bytes(4)) + _parameter(b"server_version", b"15.0") + _parameter(b"client_encoding", b"UTF8")
        )
        writer.write(_parameter(b"standard_conforming_strings", b"on") + _message(b"K", bytes(8)) + _READY)
        while (kind := await reader.readexactly(1)) != b"X":
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
            writer.write(_ANSWERS[kind])
            await writer.drain()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def _parameter(name: bytes, value: bytes) -> bytes:
    return _message(b"S", name + b"\0" + value + b"\0")


_READY = _message(b"Z", b"I")
_COLUMN = _message(
    b"T", b"\0\1answer\0" + bytes(4) + bytes(2) + (25).to_bytes(4, "big") + b"\xff\xff" + b"\xff\xff\xff\xff" + bytes(2)
)
_ROW = _message(b"D", b"\0\1" + (3).to_bytes(4, "big") + b"yes") + _message(b"C", b"SELECT 1\0")
_ANSWERS = {
    b"Q": _COLUMN + _ROW + _READY,
    b"P": _message(b"1", b""),
    b"B": _message(b"2", b""),
    b"D": _COLUMN,
    b"E": _ROW,
    b"C": _message(b"3", b""),
    b"S": _READY,
    b"H": b"",
}
