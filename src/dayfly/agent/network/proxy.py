"""An HTTP proxy, for tools that are told of one: CONNECT, and requests for http:// URLs.

It asks the host for whatever name it is asked for: the host judges, and its text is the answer.
"""

from __future__ import annotations

from dayfly.agent.network import answers, requests
from dayfly.agent.network.greetings import Greeting
from dayfly.agent.network.manners import Manners
from dayfly.agent.network.requests import END, MAX_HEAD, Unfit, Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.network.sockets import socket


class Connect(Manners):
    """Raw bytes follow."""

    greeting = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def refused(self, connection: socket, code: str, text: str, said: bytes) -> bytes:
        return answers.refusal(code, text)


class Forward(Connect):
    """One request follows, and its response comes back as it is."""

    greeting = b""


class HttpGreeting(Greeting):
    """Until the end of a request's head."""

    @property
    def wanted(self) -> int:
        return MAX_HEAD - len(self.heard)

    def hear(self, connection: socket) -> None:
        head, end, rest = self.heard.partition(END)
        try:
            if not self.heard[:1].isalpha():
                raise Unfit(400, "this is an HTTP proxy")
            if end:
                self._go(connection, requests.read(head + end), rest)
            elif len(self.heard) >= MAX_HEAD:
                raise Unfit(431, f"more than {MAX_HEAD} bytes before the end of the headers")
        except Unfit as error:
            self.part(connection, answers.http(error.status, str(error)))

    def late(self) -> bytes:
        return answers.http(408, "the request took too long")

    def _go(self, connection: socket, wanted: Wanted, rest: bytes) -> None:
        full = self.door.too_many(wanted.host)
        if full:
            raise Unfit(429, full)
        self.release()
        place = wanted.host, wanted.port
        if wanted.body is None:
            self.door.tunnel(connection, place, Connect(), rest)
        else:
            rest = rest[: wanted.body]  # one request to a connection: what is beyond it is not heard
            self.door.tunnel(connection, place, Forward(), wanted.head + rest, wanted.body - len(rest))
