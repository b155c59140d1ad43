"""Certificate authorities as sandboxes have them, and a web server behind tunnels that shows their certificates."""

from __future__ import annotations

import ssl
from contextlib import suppress

from dayfly.egress.authority import make_authority
from dayfly.egress.certificates import Certificates
from tests.agent.host import Taken


class Authority:
    """As the manager makes them, and the gateway uses them. ``pem`` is its own certificate."""

    def __init__(self) -> None:
        self._made = make_authority()
        self.pem = self._made.certificate

    def server(self, name: str) -> ssl.SSLContext:
        """For a server of that name."""
        return Certificates(self._made).context(name)


REFS = b"001e# service=git-upload-pack\n0000003f" + b"7" * 40 + b" refs/heads/main\0 \n0000"


class SecureWeb:
    """Answers every name in TLS, with ``context``, with one answer to one request. ``asked`` has the request lines that came."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.asked: list[str] = []

    def serve(self, taken: Taken) -> None:
        if taken.op != "tunnel":
            taken.finish()
            return
        taken.connected()
        taken.react = _Conversation(self).react


class _Conversation:
    def __init__(self, web: SecureWeb) -> None:
        self._web = web
        self._read, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = web.context.wrap_bio(self._read, self._written, server_side=True)
        self._taken = 0
        self._request = b""

    def react(self, taken: Taken) -> None:
        if taken.done:
            return
        self._read.write(taken.stdin[self._taken :])
        self._taken = len(taken.stdin)
        try:
            self._go_on()
            over = True
        except ssl.SSLWantReadError:
            over = False
        except ssl.SSLError:  # the other side does not believe us
            over = True
        if data := self._written.read():
            taken.answer(data)
        if over or taken.cancelled or 0 in taken.ended:
            taken.finish()

    def _go_on(self) -> None:
        self._tls.do_handshake()
        while b"\r\n\r\n" not in self._request:
            if not (more := self._tls.read(65536)):  # it has said goodbye
                return
            self._request += more
        line = self._request.split(b"\r\n")[0].decode()
        self._web.asked.append(line)
        body = REFS if "/info/refs" in line else b"<html>welcome</html>"
        kind = b"application/x-git-upload-pack-advertisement" if "/info/refs" in line else b"text/html"
        head = b"Content-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (kind, len(body))
        self._tls.write(b"HTTP/1.1 200 OK\r\n" + head + body)
        with suppress(ssl.SSLError):  # says goodbye, and waits for no answer
            self._tls.unwrap()
