"""A connection that the gateway answers itself: TLS ends here, requests are looked at, and servers are asked anew."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable

from dayfly.egress.dialling import Dialler
from dayfly.egress.guests import Guest, byte_cap
from dayfly.egress.http.serving import Answered, Serving
from dayfly.egress.http.stream import Spent, Stream, accepted
from dayfly.egress.http.upstream import Servers
from dayfly.egress.services.choice import service_of
from dayfly.egress.verdict import Allowed, Denied

__all__ = ["Served"]

HANDSHAKE_SECONDS = 30.0
"""Clients begin at once; some open a connection in advance."""

Told = Callable[[Answered], Awaitable[None]]

_WRONG_NAME = "CALLBACK_FAILED"
"""OpenSSL's word for a handshake that names another host, or none: ``Certificates`` has a callback that says so."""

_NOT_TRUSTED = frozenset({"TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_BAD_CERTIFICATE"})


class Served:
    """``run`` once, as a task that may be cancelled. ``sent`` and ``received`` are bytes of HTTP."""

    def __init__(
        self, allowed: Allowed, guest: Guest, sandbox: socket.socket, dialler: Dialler, verified: ssl.SSLContext
    ) -> None:
        self._allowed = allowed
        self._guest = guest
        self._sandbox = sandbox
        self._servers = Servers(dialler, guest.turns, verified)
        self._stream: Stream | None = None

    @property
    def address(self) -> str:
        """What was dialled last, or ``""``."""
        return str(self._servers.address or "")

    @property
    def sent(self) -> int:
        return self._stream.sent if self._stream else 0

    @property
    def received(self) -> int:
        return self._stream.received if self._stream else 0

    def judge_again(self, allowed: Allowed) -> None:
        """Still allowed, by a rule that says the same, perhaps with other caps."""
        if self._stream is not None:
            self._stream.meter = self._guest.meter(allowed)

    async def run(self, told: Told) -> tuple[str, Denied | None]:
        """Why it ended, and what is said of that where a rule has ended it."""
        try:
            reader, writer = await accepted(self._sandbox, self._context(), HANDSHAKE_SECONDS)
        except OSError as error:
            return self._no_handshake(error)
        self._stream = Stream(reader, writer, self._guest.meter(self._allowed))
        try:
            service = service_of(self._allowed, self._guest.terms)
            return await self._answered(Serving(self._allowed, self._stream, service, self._servers, told))
        finally:
            await self._servers.close()
            self._stream.abort()

    async def _answered(self, serving: Serving) -> tuple[str, Denied | None]:
        assert self._stream is not None
        try:
            await serving.run()
        except Spent:
            return "byte_cap", byte_cap(self._allowed)
        except EOFError:  # whoever opened it has not said all
            return "ended", None
        except TimeoutError:  # nor has anything for a while
            pass
        except OSError as error:
            return self._no_handshake(error) if _is_not_trusted(error) else ("reset", None)
        await self._stream.close()
        return "done", None

    def _context(self) -> ssl.SSLContext | None:
        if self._allowed.protocol != "tls":
            return None
        return self._guest.certificates.context(self._allowed.host)

    def _no_handshake(self, error: OSError) -> tuple[str, Denied | None]:
        reason = getattr(error, "reason", None)
        if not isinstance(error, ssl.SSLError):
            return "done", None  # it has said nothing, or not all
        if reason == _WRONG_NAME:
            return self._denied(
                "sni_mismatch", "its TLS handshake names another host, or none", "Connect to each host by its name."
            )
        if _is_not_trusted(error):
            return self._denied(
                "not_trusted", "its client does not take the certificate of this sandbox's gateway", _TRUST
            )
        return self._denied(
            "not_tls", "it does not begin with a TLS handshake (1.2 or newer)", "Speak TLS on this port."
        )

    def _denied(self, code: str, what: str, remedy: str) -> tuple[str, Denied]:
        return code, self._allowed.ended(code, what, remedy)


def _is_not_trusted(error: OSError) -> bool:
    """Some clients say so only after the handshake."""
    return getattr(error, "reason", None) in _NOT_TRUSTED


_TRUST = "Have the client read the file that SSL_CERT_FILE names; one that insists on a certificate of its own cannot be used here."
