"""The manager's side of the gateway: a process is started, asked and believed as little as possible.

The gateway parses what hostile code and hostile servers send, so it may be somebody else's one day. What it says is bounded
and typed, names only what was asked of it, and changes nothing but the connection that it is about; a packet that does not fit ends
the process. A gateway that is gone is not started again here: whoever holds this sees ``lost``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dayfly.boundaries import forks
from dayfly.egress.denials import gone, no_name, no_port
from dayfly.egress.heard import canonical, check_connected, denied, printable, requested
from dayfly.egress.packets import MAX_PART, MAX_TEXT, TO_MANAGER, BadPacket, Packets
from dayfly.egress.process import Process, close_private
from dayfly.egress.terms import Terms
from dayfly.egress.tunnel import ENDS, Closed, Requested, Tunnel
from dayfly.egress.verdict import Denied, port_or_zero
from dayfly.errors import DayflyError, Fault, HostError

__all__ = ["MOST_EARLY", "Closed", "EgressDenied", "EgressUnreachable", "Gateway", "Requested", "Tunnel"]

START_SECONDS = 30.0
"""Until it is ready: some 0.3 s, and more on a machine that starts many things at once."""

ANSWER_SECONDS = 10.0
"""For rules that are admitted or withdrawn, of which a gateway that is well makes milliseconds, or some 3 s."""

CONNECT_SECONDS = 45.0
"""For a connection: a gateway takes at most 40 s. One that does not answer in time will never answer anybody."""

MOST_EARLY = 16 * 1024
"""Bytes that a tunnel may begin with before it is one: what a sandbox's end of it holds on any machine, and more than a request."""

MOST_TOGETHER = 64
"""Packets that are dealt with before others get their turn."""

ALL_THAT_CAME = 2**20
"""Packets: more than a socket holds. What is waiting is wanted before anything is decided, whoever else waits."""

_SHOWN = 80  # characters of a host as it was asked for
_NO_START = "run: dayfly doctor"


class EgressDenied(DayflyError):
    """No rule allows it; ``denied`` says which code, and what to say to whoever tried."""

    fault: ClassVar[Fault] = Fault.SANDBOX
    http_status: ClassVar[int] = 403

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.reason, remedy=denied.remedy)
        self.denied = denied


class EgressUnreachable(DayflyError):
    """A rule allows it, and there is no connection: no such name, no answer, no room."""

    fault: ClassVar[Fault] = Fault.SANDBOX
    http_status: ClassVar[int] = 502
    retryable: ClassVar[bool] = True


@dataclass
class _Admitted:
    """What a sandbox was ever given, until it is withdrawn."""

    rules: int = 0  # the most at a time


@dataclass
class _Dialled:
    """One connection, from the request to its last packet."""

    sandbox: str
    admitted: _Admitted
    host: str | None  # canonical; None: it is no host name
    asked: str  # as it came, its beginning
    port: int
    answer: asyncio.Future[Tunnel | None]  # None: connected, and nobody wants it any more
    ours: socket.socket | None
    overdue: asyncio.TimerHandle
    said: int  # bytes that are the gateway's already
    tunnel: Tunnel | None = None
    connected: dict[str, Any] | None = None
    since: float = 0.0


class Gateway:
    """One gateway, on the loop that started it. ``on_closed`` is called for every tunnel that was connected, in the end;
    ``on_request`` for every request that the gateway itself has answered."""

    def __init__(self, process: Process, packets: Packets) -> None:
        self.on_closed: Callable[[str, Closed], None] = lambda sandbox, closed: None
        self.on_request: Callable[[str, Requested], None] = lambda sandbox, requested: None
        self.lost = asyncio.Event()
        self._process = process
        self._packets = packets
        self._loop = asyncio.get_running_loop()
        self._next = 0
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._asked: dict[int, asyncio.Future[None]] = {}
        self._dialled: dict[int, _Dialled] = {}
        self._admitted: dict[str, _Admitted] = {}
        self._burial: asyncio.Task[int] | None = None
        self._loop.add_reader(packets.fileno(), self._incoming)

    def __repr__(self) -> str:
        state = "gone" if self.lost.is_set() else f"pid {self._process.pid}"
        return f"<Gateway {state}, {len(self._dialled)} connections>"

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def start(cls, *, within: Sequence[str] = (), roots: Path | None = None) -> Gateway:
        """Start one. ``within`` is a program with arguments that starts what follows them, such as ``nsenter``: the gateway then
        resolves and dials in another network than this process. ``roots``: a file of certificates by which it verifies servers whose
        requests it looks at, instead of this machine's (and of ``SSL_CERT_FILE``). Raises ``HostError``."""
        try:
            process = await Process.start(within, roots)
        except OSError as error:
            raise HostError(f"the gateway cannot be started: {error.strerror or error}", remedy=_NO_START) from error
        gateway = cls(process, Packets(process.end, TO_MANAGER, gifts=False, close_end=close_private))
        try:
            async with asyncio.timeout(START_SECONDS):
                await gateway._ready
        except BaseException as error:
            await gateway.close()
            if isinstance(error, TimeoutError | ConnectionError):
                raise HostError(
                    f"the gateway did not start: {process.said or 'it said nothing'}", remedy=_NO_START
                ) from None
            raise
        process.began()
        return gateway

    # --- what is asked ----------------------------------------------------------------------------------------------

    async def admit(self, sandbox: str, terms: Terms) -> None:
        """The sandbox's rules from now on. When this returns, tunnels that none of them allows have been cut. Raises ``HostError``."""
        text = json.dumps(terms.model_dump(mode="json"))  # ASCII
        parts = [text[at : at + MAX_PART] for at in range(0, len(text), MAX_PART)]
        number, answer = self._ask()
        admitted = self._admitted.setdefault(sandbox, _Admitted())
        admitted.rules = max(admitted.rules, len(terms.rules))  # what is under way may mean those before
        for part in parts:  # without waiting between them, so that nobody's come in between
            last = part is parts[-1]
            self._packets.post({"op": "admit", "id": number, "sandbox": sandbox, "part": part, "last": last})
        await self._answered(number, answer)

    async def withdraw(self, sandbox: str) -> None:
        """Its rules and tunnels end, which ``on_closed`` is told before this returns. Nothing happens to one that has none, or when
        the gateway is gone."""
        self._admitted.pop(sandbox, None)
        if self.lost.is_set():
            await asyncio.sleep(0)  # what is told of its end goes first
            return
        number, answer = self._ask()
        self._packets.post({"op": "withdraw", "id": number, "sandbox": sandbox})
        with suppress(HostError):  # gone: then nothing of it is left
            await self._answered(number, answer)

    async def connect(self, sandbox: str, host: str, port: int, early: bytes = b"") -> Tunnel:
        """``early`` are the first bytes for the server, at most ``MOST_EARLY``, which are there when the gateway looks for them; the
        tunnel's ``sent`` counts how many of them are on their way. Raises ``EgressDenied``, ``EgressUnreachable``."""
        if self.lost.is_set():
            raise EgressDenied(gone(host, port))
        if not isinstance(host, str) or len(host) > MAX_TEXT:
            raise EgressDenied(no_name(port))
        if not port_or_zero(port):  # an agent's word, which must not cost the gateway
            raise EgressDenied(no_port(host))
        number, dialled, theirs = self._dial(sandbox, host, port, early[:MOST_EARLY])
        asked = {"op": "connect", "id": number, "sandbox": sandbox, "host": host, "port": port}
        self._packets.post(asked, theirs).add_done_callback(lambda sent: self._asked_for(number, sent))
        try:
            tunnel = await dialled.answer
        except asyncio.CancelledError:
            self._give_up(number, dialled)
            raise
        assert tunnel is not None
        return tunnel

    async def close(self) -> None:
        """End the process and every tunnel. When this returns, it is gone. Idempotent."""
        self._lose()
        assert self._burial is not None
        await asyncio.shield(self._burial)

    def _ask(self) -> tuple[int, asyncio.Future[None]]:
        if self.lost.is_set():
            raise HostError("the gateway is gone", remedy="start another one")
        self._next += 1
        self._asked[self._next] = answer = self._loop.create_future()
        return self._next, answer

    async def _answered(self, number: int, answer: asyncio.Future[None]) -> None:
        """The number stays known until it is answered, even if nobody waits any more."""
        overdue = self._loop.call_later(ANSWER_SECONDS, self._overdue, number)
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        answer.add_done_callback(lambda _: overdue.cancel())
        await asyncio.shield(answer)

    def _overdue(self, number: int) -> None:
        """Unless the answer is there, and was not heard yet: then it is this side that is slow."""
        self._incoming(ALL_THAT_CAME)
        dialled = self._dialled.get(number)
        if number in self._asked or (dialled is not None and dialled.connected is None):
            self._lose()

    def _dial(self, sandbox: str, host: str, port: int, early: bytes) -> tuple[int, _Dialled, socket.socket]:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise EgressUnreachable(f"This machine has no descriptor left: {error.strerror}.") from error
        for end in (ours, theirs):
            forks.keep_from_children(end.fileno())
        self._next += 1
        dialled = _Dialled(
            sandbox,
            self._admitted.get(sandbox, _Admitted()),
            canonical(host),
            host[:_SHOWN],
            port,
            self._loop.create_future(),
            ours,
            self._loop.call_later(CONNECT_SECONDS, self._overdue, self._next),
            _said(ours, early),
        )
        dialled.answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._dialled[self._next] = dialled
        return self._next, dialled, theirs

    def _asked_for(self, number: int, sent: asyncio.Future[None]) -> None:
        """Or not: the kernel takes no descriptor from whoever has too many on their way."""
        dialled = self._dialled.get(number)
        if dialled is not None and not sent.cancelled() and sent.exception() is not None:
            self._answer(number, dialled, EgressUnreachable("The gateway could not be asked; try again."))

    def _give_up(self, number: int, dialled: _Dialled) -> None:
        """Nobody waits for the answer. What becomes of it is still heard of."""
        if dialled.tunnel is not None:
            dialled.tunnel.close()
        elif dialled.ours is not None:
            close_private(dialled.ours)
            dialled.ours = None
            self._end(number)

    def _end(self, number: int) -> None:
        if number in self._dialled and not self.lost.is_set():
            self._packets.post({"op": "end", "id": number})

    # --- what is heard ----------------------------------------------------------------------------------------------

    def _incoming(self, most: int = MOST_TOGETHER) -> None:
        try:
            for _ in range(most):
                if self.lost.is_set() or (received := self._packets.receive()) is None:
                    return
                _HEARD[received[0]["op"]](self, received[0])
        except (BadPacket, EOFError, OSError):
            self._lose()

    def _heard_ready(self, packet: dict[str, Any]) -> None:
        if self._ready.done():
            raise BadPacket("ready again")
        self._ready.set_result(None)

    def _heard_done(self, packet: dict[str, Any]) -> None:
        self._taken(packet).set_result(None)

    def _heard_refused(self, packet: dict[str, Any]) -> None:
        self._taken(packet).set_exception(
            HostError(f"the gateway does not take the rules: {printable(packet['text'])}", remedy="start another one")
        )

    def _heard_connected(self, packet: dict[str, Any]) -> None:
        dialled = self._dialled.get(packet["id"])
        if dialled is None or dialled.connected is not None:
            raise BadPacket("connected what was not asked for")
        check_connected(packet, dialled.host, dialled.admitted.rules)
        dialled.overdue.cancel()
        dialled.connected, dialled.since = packet, time.monotonic()
        if dialled.ours is not None:
            self._hand_over(packet["id"], dialled, dialled.ours)

    def _hand_over(self, number: int, dialled: _Dialled, ours: socket.socket) -> None:
        packet = dialled.connected
        assert packet is not None
        dialled.ours = None
        try:
            tunnel = Tunnel(
                ours,
                packet["host"],
                dialled.port,
                packet["address"],
                lambda: self._incoming(ALL_THAT_CAME),
                lambda: self._end(number),
                dialled.said,
            )
        except OSError as error:
            close_private(ours)
            self._end(number)
            _fail(dialled.answer, EgressUnreachable(f"This machine has no descriptor left: {error.strerror}."))
            return
        dialled.tunnel = tunnel
        if dialled.answer.done():  # cancelled in this very moment
            tunnel.close()
        else:
            dialled.answer.set_result(tunnel)

    def _heard_denied(self, packet: dict[str, Any]) -> None:
        dialled = self._unconnected(packet)
        if dialled.host is not None and packet["host"] != dialled.host:
            raise BadPacket("a denial of another host")
        self._answer(packet["id"], dialled, EgressDenied(denied(packet["host"], dialled.port, packet)))

    def _heard_unreachable(self, packet: dict[str, Any]) -> None:
        dialled = self._unconnected(packet)
        self._answer(packet["id"], dialled, EgressUnreachable(printable(packet["text"])))

    def _unconnected(self, packet: dict[str, Any]) -> _Dialled:
        dialled = self._dialled.get(packet["id"])
        if dialled is None or dialled.connected is not None:
            raise BadPacket("an answer to nothing, or one too many")
        return dialled

    def _answer(self, number: int, dialled: _Dialled, error: Exception) -> None:
        """Nothing about the packet is in doubt any more: who is forgotten here is told of nothing else."""
        del self._dialled[number]
        dialled.overdue.cancel()
        if dialled.ours is not None:
            close_private(dialled.ours)
        _fail(dialled.answer, error)

    def _heard_request(self, packet: dict[str, Any]) -> None:
        dialled = self._dialled.get(packet["id"])
        if dialled is None or dialled.connected is None:
            raise BadPacket("a request on what is not open")
        host, rules = dialled.connected["host"], dialled.admitted.rules
        self.on_request(dialled.sandbox, requested(packet, host, dialled.port, rules))

    def _heard_closed(self, packet: dict[str, Any]) -> None:
        dialled = self._dialled.get(packet["id"])
        if dialled is None or dialled.connected is None or packet["why"] not in ENDS:
            raise BadPacket("closed what was not open")
        why = None
        if packet["code"] is not None:
            why = denied(dialled.connected["host"], dialled.port, packet)
        del self._dialled[packet["id"]]
        self._closed(dialled, packet["sent"], packet["received"], packet["why"], why)

    def _closed(self, dialled: _Dialled, sent: int, received: int, why: str, denied: Denied | None) -> None:
        known = dialled.connected
        assert known is not None
        seconds = time.monotonic() - dialled.since
        if dialled.tunnel is not None:  # whatever it says, so much is known
            sent, received = max(sent, dialled.tunnel.sent), max(received, dialled.tunnel.received)
        closed = Closed(known["host"], dialled.port, known["rule"], known["address"], sent, received, seconds, why)
        if dialled.tunnel is not None:
            dialled.tunnel.has_ended(closed, denied)
        self._loop.call_soon(self.on_closed, dialled.sandbox, closed)

    def _taken(self, packet: dict[str, Any]) -> asyncio.Future[None]:
        if packet["id"] not in self._asked:
            raise BadPacket("an answer to nothing")
        return self._asked.pop(packet["id"])

    # --- its end ----------------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        """Everybody who waits is told, and what is left of the process ends. Idempotent."""
        if self.lost.is_set():
            return
        self.lost.set()
        self._packets.close()
        self._burial = self._loop.create_task(self._process.end_now())
        if not self._ready.done():
            self._ready.set_exception(ConnectionResetError("it ended"))
        over = HostError("the gateway is gone", remedy="start another one")
        for answer in self._asked.values():
            _fail(answer, over)
        self._asked.clear()
        self._admitted.clear()
        for dialled in self._dialled.values():
            self._leave(dialled)
        self._dialled.clear()

    def _leave(self, dialled: _Dialled) -> None:
        dialled.overdue.cancel()
        if dialled.ours is not None:
            close_private(dialled.ours)
        denied = gone(dialled.host or dialled.asked, dialled.port)
        if dialled.connected is None:
            _fail(dialled.answer, EgressDenied(denied))
        else:
            self._closed(dialled, 0, 0, "gateway_gone", denied)


_HEARD: dict[str, Callable[[Gateway, dict[str, Any]], None]] = {
    "ready": Gateway._heard_ready,
    "done": Gateway._heard_done,
    "refused": Gateway._heard_refused,
    "connected": Gateway._heard_connected,
    "denied": Gateway._heard_denied,
    "unreachable": Gateway._heard_unreachable,
    "request": Gateway._heard_request,
    "closed": Gateway._heard_closed,
}


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _said(ours: socket.socket, early: bytes) -> int:
    """How much of it the kernel takes at once."""
    try:
        return ours.send(early, socket.MSG_DONTWAIT) if early else 0
    except OSError:  # what is wrong with it, whoever uses it is told
        return 0
