"""One connection of a sandbox, from the request to the end: judged, dialled, begun, relayed, closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from struct import pack
from typing import Any, Protocol, TypeVar

from dayfly.egress.addresses import refusal
from dayfly.egress.dialling import Dialler, Network, PrivateAddress, Unreachable
from dayfly.egress.guests import Guest, byte_cap
from dayfly.egress.http.messages import Refused
from dayfly.egress.http.serving import Answered
from dayfly.egress.openings import Opening, opening
from dayfly.egress.relay import Relay
from dayfly.egress.served import Served
from dayfly.egress.unless import Interrupted, unless
from dayfly.egress.verdict import Allowed, Denied

__all__ = ["Answers", "Passage"]

T = TypeVar("T")

MAKING_SECONDS = 40.0
"""From the request to the connection: one look-up and three addresses, however often the rules change meanwhile."""

OPENING_SECONDS = 30.0
"""From the connection to the first bytes that tell what it is. Clients begin at once; some open one in advance."""

MOST_METHOD = 20
MOST_PATH = 500
MOST_WORDS = 1000
"""Characters that are told of a request, and of a denial's reason and remedy: less than a packet takes, for a sandbox that writes
long ones must not have the gateway taken for a liar."""

_RESET = pack("ii", 1, 0)  # SO_LINGER: the server is to see that this is no end, but a break


class Answers(Protocol):
    def post(self, packet: Mapping[str, object]) -> asyncio.Future[None]: ...


class _Ended(Exception):
    """From outside, or by the relay."""


class Passage:
    """``run`` once, as a task. Its last packet has gone before the sandbox sees the end of its bytes."""

    def __init__(
        self,
        number: int,
        guest: Guest,
        dialler: Dialler,
        answers: Answers,
        sandbox: socket.socket,
        verified: ssl.SSLContext | None = None,
    ) -> None:
        self._number = number
        self._guest = guest
        self._dialler = dialler
        self._answers = answers
        self._sandbox = sandbox
        self._upstream: socket.socket | None = None
        self._address: IPv4Address | IPv6Address | None = None
        self._allowed: Allowed | None = None  # once it is connected
        self._opening: Opening | None = None
        self._relay: Relay | None = None
        self._verified = verified or ssl.create_default_context()
        self._served: Served | None = None
        self._basis: object = None  # of what it is served by
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        sandbox.setblocking(False)

    async def run(self, host: str, port: int) -> None:
        """Never raises."""
        try:
            allowed, upstream = await self._connected(host, port)
            if upstream is None:
                return await self._serve(allowed)
        except Refused as refused:
            await self._post("denied", **_told(refused.denied), host=refused.denied.host)
        except (Unreachable, _Ended) as error:
            await self._post("unreachable", text=str(error)[:500])
        except Exception as error:  # noqa: BLE001 - a mistake of ours: it costs one connection, and is answered
            await self._post("unreachable", text=f"The gateway failed ({type(error).__name__}).")
        else:
            await self._post("connected", host=allowed.host, rule=allowed.rule, address=str(self._address))
            await self._finish(*await self._carried(upstream))
        finally:
            self._hang_up()
            self._sandbox.close()

    def end(self, why: str) -> None:
        """From outside. Idempotent."""
        if not self._over.done():
            self._over.set_result(why)
        if self._relay is not None:
            self._relay.end(why)

    def judge_again(self) -> None:
        """The rules have changed: what would not be allowed any more as it is under way is ended."""
        if self._allowed is None:
            return  # it is being made, and is judged again after that
        verdict = self._guest.judge(self._allowed.host, self._allowed.port)
        if isinstance(verdict, Denied):
            self.end("byte_cap" if verdict.code == "byte_cap" else "revoked")
        elif verdict.protocol != self._allowed.protocol or not self._may_stay(verdict):
            self.end("revoked")
        else:
            self._allowed = verdict
            if self._relay is not None:
                self._relay.meter = self._guest.meter(verdict)
            if self._served is not None:
                self._served.judge_again(verdict)

    def _may_stay(self, verdict: Allowed) -> bool:
        served = bool(self._guest.rule(verdict).service)
        if served or self._served is not None:
            return served and self._served is not None and self._guest.basis(verdict) == self._basis
        private = self._guest.rule(verdict).private
        return self._address is not None and refusal(self._address, private=private, own=()) is None

    # --- making it --------------------------------------------------------------------------------------------------

    async def _connected(self, host: str, port: int) -> tuple[Allowed, socket.socket | None]:
        """With nobody at the other end where requests are looked at, which rules that change meanwhile may say as well. Raises
        ``Refused``, ``Unreachable``, ``_Ended``."""
        until = asyncio.get_running_loop().time() + MAKING_SECONDS
        while True:
            verdict, version = self._guest.judge(host, port), self._guest.version
            if isinstance(verdict, Denied):
                raise Refused(verdict)
            rule = self._guest.rule(verdict)  # with the verdict: a moment later its index may mean another one
            if rule.service:
                return verdict, None
            upstream = await self._unless_ended(self._dial(verdict, rule.private, until))
            if version == self._guest.version:
                self._allowed = verdict
                return verdict, upstream
            self._hang_up()

    async def _dial(self, allowed: Allowed, private: Network | None, until: float) -> socket.socket:
        try:
            async with asyncio.timeout_at(until):
                self._address, self._upstream = await self._dialler.dial(
                    allowed.host, allowed.port, private, self._guest.turns
                )
        except PrivateAddress as error:
            raise Refused(error.denied(allowed.host, allowed.port)) from None
        except TimeoutError:
            raise Unreachable(f"{allowed.host}, port {allowed.port}: no connection in time.") from None
        return self._upstream

    async def _unless_ended(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await unless(self._over, work)
        except Interrupted:
            raise _Ended("the connection was given up before it came about.") from None

    # --- answering it here --------------------------------------------------------------------------------------------

    async def _serve(self, allowed: Allowed) -> None:
        """Nothing is resolved nor dialled before a request is allowed."""
        self._allowed, self._basis = allowed, self._guest.basis(allowed)
        self._served = Served(allowed, self._guest, self._sandbox, self._dialler, self._verified)
        await self._post("connected", host=allowed.host, rule=allowed.rule, address="")
        try:
            why, denied = await self._unless_ended(self._served.run(self._tell))
        except _Ended:
            why, denied = self._over.result(), None
        except Exception:  # noqa: BLE001 - see above
            why, denied = "failed", None
        if why == "byte_cap" and denied is None:
            denied = byte_cap(allowed)
        await self._finish(why, denied)

    async def _tell(self, one: Answered) -> None:
        address = self._served.address if self._served else ""
        told = {
            "method": one.method[:MOST_METHOD],
            "path": one.path[:MOST_PATH],
            "status": one.status,
            "rule": one.rule,
            "secret": one.secret,
        }
        await self._post("request", **told, address=address, **_told(one.denied))

    # --- carrying ---------------------------------------------------------------------------------------------------

    async def _carried(self, upstream: socket.socket) -> tuple[str, Denied | None]:
        """Until it is over: why, and what is said of that where a rule has ended it."""
        assert self._allowed is not None
        self._opening = Opening(self._allowed, self._sandbox, upstream, self._take)
        try:
            await self._unless_ended(self._begun(self._opening))
            self._begin_relay(self._opening, upstream)
            why = await self._over
        except Refused as refused:
            return refused.denied.code, refused.denied
        except _Ended:
            why = self._over.result()
        except EOFError:  # whoever opened it has said nothing, or not all
            return "done", None
        except OSError:
            return "reset", None
        except Exception:  # noqa: BLE001 - see above
            return "failed", None
        return why, byte_cap(self._allowed) if why == "byte_cap" else None

    async def _begun(self, one: Opening) -> None:
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                await opening(one)
        except TimeoutError:
            raise _too_slow(one) from None

    def _begin_relay(self, one: Opening, upstream: socket.socket) -> None:
        assert self._allowed is not None
        self._relay = Relay(self._sandbox, upstream, self._guest.meter(self._allowed), self.end)
        self._relay.start(one.head)

    def _take(self, count: int) -> None:
        assert self._allowed is not None
        meter = self._guest.meter(self._allowed)
        if meter.beyond(count):
            raise Refused(byte_cap(self._allowed))
        meter.move(count)

    async def _finish(self, why: str, denied: Denied | None) -> None:
        parts = [part for part in (self._opening, self._relay, self._served) if part is not None]
        sent, received = sum(part.sent for part in parts), sum(part.received for part in parts)
        if why != "done" and self._upstream is not None:
            with suppress(OSError):
                self._upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._hang_up()
        await self._post("closed", sent=sent, received=received, why=why, **_told(denied))

    def _hang_up(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None

    async def _post(self, op: str, **fields: object) -> None:
        with suppress(OSError):  # then nobody is there any more, and this process ends in a moment
            await self._answers.post({"op": op, "id": self._number, **fields})


def _too_slow(one: Opening) -> Exception:
    """No rule is broken by a client that is silent, nor by a server."""
    if one.sent:
        return ConnectionResetError()
    if not one.head:
        return EOFError()
    return one.refused("not_tls", f"it was not clear within {OPENING_SECONDS:.0f} s what it is")


def _told(denied: Denied | None) -> dict[str, object]:
    if denied is None:
        return {"code": None, "reason": None, "remedy": None}
    return {"code": denied.code, "reason": denied.reason[:MOST_WORDS], "remedy": denied.remedy[:MOST_WORDS]}
