"""Servers that real clients talk to: HTTP/2, WebSocket, PostgreSQL as far as its beginning goes, an index of packages."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import ssl
import zipfile
from pathlib import Path

import h2.connection
import h2.events
from websockets.asyncio.server import ServerConnection

__all__ = ["SSL_REQUEST", "Http2", "Postgres", "index_page", "say_back", "served_index", "tls_of", "wheel"]

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
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

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
        try:
            if await self._began_with_tls(reader, writer):
                await self._session(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

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


def wheel(name: str) -> bytes:
    """A package of one module."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "here = True\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return made.getvalue()


def index_page(name: str) -> bytes:
    file = f"{name}-1.0-py3-none-any.whl"
    digest = hashlib.sha256(wheel(name)).hexdigest()
    return f'<!DOCTYPE html><html><body><a href="/files/{file}#sha256={digest}">{file}</a></body></html>'.encode()


async def served_index(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """``/simple/NAME/`` and ``/files/FILE``, a request to a connection."""
    try:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
    except (ConnectionError, asyncio.IncompleteReadError):
        writer.close()
        return
    kind, _, name = path.strip("/").partition("/")
    known = {"simple": lambda: index_page(name), "files": lambda: wheel(name.partition("-")[0])}
    body = known[kind]() if kind in known and name.startswith("penguin") else json.dumps("no").encode()
    status = b"200 OK" if body.startswith((b"<!", b"PK")) else b"404 Not Found"
    type_ = b"text/html" if kind == "simple" else b"application/octet-stream"
    writer.write(
        b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        % (status, type_, len(body))
        + body
    )
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    writer.close()
