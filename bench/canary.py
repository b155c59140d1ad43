"""A server of its own process, as one elsewhere is: says its port, answers /small with little and /big with much, and ends with its
standard input. A connection is kept unless the client says otherwise. With a file of a certificate, whose key is in ``key`` beside it,
it speaks TLS."""

from __future__ import annotations

import os
import socket
import ssl
import sys
import threading
from pathlib import Path

MIB = 1 << 20
BIG = 1024 * MIB


def main() -> None:
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    tls = _tls(Path(sys.argv[1])) if len(sys.argv) > 1 else None
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_serve, args=(connection, tls), daemon=True).start()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def _tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key"))
    return context


def _serve(plain: socket.socket, tls: ssl.SSLContext | None) -> None:
    with tls.wrap_socket(plain, server_side=True) if tls else plain as connection:
        while request := _request(connection):
            close = b"Connection: close" in request
            _answer(connection, BIG if request.startswith(b"GET /big") else 100, close=close)
            if close:
                return


def _request(connection: socket.socket) -> bytes:
    request = b""
    while not request.endswith(b"\r\n\r\n"):
        data = connection.recv(65536)
        if not data:
            return b""
        request += data
    return request


def _answer(connection: socket.socket, size: int, *, close: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (size, b"Connection: close\r\n" if close else b"")
    if size < MIB:
        connection.sendall(head + bytes(size))
        return
    connection.sendall(head)
    piece = memoryview(bytes(4 * MIB))
    for _ in range(size // len(piece)):
        connection.sendall(piece)


if __name__ == "__main__":
    main()
