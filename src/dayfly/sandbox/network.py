"""The way out of one sandbox: names that exist inside, tunnels to them through the gateway, and what was denied.

The agent opens tunnels by name; whether one may be opened is the gateway's to judge, which is another process. What the
agent says of names that it refused by itself is a claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

from dayfly.egress.client import MOST_EARLY, Closed, EgressDenied, EgressUnreachable, Requested, Tunnel
from dayfly.egress.verdict import Denied
from dayfly.errors import HostError, SandboxEnded
from dayfly.network import Beginning, RuleList, beginning
from dayfly.policy import Policy
from dayfly.sandbox.accepted import Accepted
from dayfly.sandbox.carrying import Connected, both_ways
from dayfly.sandbox.claims import note_claims
from dayfly.sandbox.denials import Denials
from dayfly.sandbox.inside import FAILURES, Inside
from dayfly.sandbox.link import Link, LinkLost
from dayfly.sandbox.surroundings import Surroundings
from dayfly.spec import Denial, EndReason
from dayfly.wire import operations as ops
from dayfly.wire.messages import Data

__all__ = ["Network", "NetworkCalls", "WayOut"]

TELL_SECONDS = 30.0
"""For the agent to listen for other names. That takes some milliseconds, and waits for a snapshot; but one that never answers
must not keep its owner waiting. The gateway has the rules before."""

LOOK_SECONDS = 0.5
"""In learn mode, for the client's first bytes. Who speaks first says so at once; a server's client, and one that waits for a
proxy's answer, never does, and is refused so much later."""

ONLY_LEARNING = (
    "Nothing can be reached here (network = 'learn'): go without; this is written down, for whoever writes the rules."
)

RULES_HAVE_COME = "what can be reached has changed while the client was looked at: connect again"


class WayOut(Protocol):
    """Where tunnels lead to: the manager's hold on the gateway."""

    async def admit(self, sandbox: str, rules: RuleList, told: Callable[[Closed | Requested], None]) -> str | None:
        """What the sandbox may reach from now on. ``told`` hears of every connection that has ended, and of every request that was
        looked at. Returns a certificate, as PEM, that the sandbox is to believe. Raises ``PolicyError``, ``HostError``."""
        ...

    async def withdraw(self, sandbox: str) -> None:
        """Its connections end, and are told of before this returns."""
        ...

    async def connect(self, sandbox: str, host: str, port: int, early: bytes) -> Tunnel:
        """``early`` is what the sandbox has said by now; the tunnel's ``sent`` tells how much of it is on its way. Raises
        ``EgressDenied`` and ``EgressUnreachable``."""
        ...


class Network:
    """On one link. ``denials`` hears of everything that was refused; ``early`` was asked for before this."""

    def __init__(self, link: Link, sandbox: str, way: WayOut, denials: Denials, early: Sequence[Accepted] = ()) -> None:
        self._sandbox = sandbox
        self._way = way
        self._denials = denials
        self._tasks: set[asyncio.Task[None]] = set()
        self._admitted = asyncio.Event()
        self.learning = False
        link.accepts = {ops.TUNNEL.name: self._tunnel, ops.NAMES_REFUSED.name: partial(note_claims, denials)}
        for asked in early:
            self._tunnel(asked)

    async def admit(self, rules: RuleList, told: Callable[[Closed | Requested], None]) -> str | None:
        """What can be reached from now on. Code that goes on from a snapshot may ask before this; it waits. Raises ``PolicyError``,
        ``HostError``."""
        authority = await self._way.admit(self._sandbox, rules, told)
        self._admitted.set()
        return authority

    async def end(self) -> None:
        """The sandbox is gone: so are its connections, and whoever wants to know has heard of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._way.withdraw(self._sandbox)

    # --- tunnels ------------------------------------------------------------------------------------------------------

    def _tunnel(self, asked: Accepted) -> None:
        task = asyncio.ensure_future(self._serve(asked))
        asked.on_end = lambda: _cancel(task)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._served(task, asked))

    def _served(self, task: asyncio.Task[None], asked: Accepted) -> None:
        """Every channel is answered, also that of a task which was cancelled before it began."""
        self._tasks.discard(task)
        _close(asked)

    async def _serve(self, asked: Accepted) -> None:
        began = None
        try:
            await self._admitted.wait()
            if self.learning:
                began = await _began(asked)
                if not self.learning:
                    raise EgressUnreachable(RULES_HAVE_COME)
            await self._connected(asked, str(asked.params["host"]), _port(asked.params["port"]))
        except EgressDenied as error:
            denied = replace(error.denied, remedy=ONLY_LEARNING) if self.learning else error.denied
            self._deny(denied, began)
            asked.fail(ops.DENIED, sentence(denied))
        except EgressUnreachable as error:
            asked.fail(ops.UNREACHABLE, str(error))
        except LinkLost:
            return

    async def _connected(self, asked: Accepted, host: str, port: int) -> None:
        early = asked.early(MOST_EARLY)
        tunnel = await self._way.connect(self._sandbox, host, port, early)
        connected = Connected(asked)
        try:
            if not early:
                connected.tell()
            await both_ways(asked, tunnel, early[tunnel.sent :], connected)
        except OSError as error:
            if tunnel.denied is None:
                raise EgressUnreachable(f"the connection broke: {error.strerror or error}"[:200]) from error
        finally:
            tunnel.close()
            connected.tell()
        if tunnel.denied is not None:
            raise EgressDenied(tunnel.denied)
        asked.finish({})

    def _deny(self, denied: Denied, began: Beginning | None) -> None:
        self._denials.add(replace(_denial(denied), began=began))


class NetworkCalls:
    """Mixed into ``Life``."""

    _inside: Inside
    _policy: Policy
    _changing: asyncio.Lock
    _network: Network | None = None
    _early: Sequence[Accepted] = ()

    @property
    def id(self) -> str:
        raise NotImplementedError

    @property
    def end_reason(self) -> EndReason | None:
        raise NotImplementedError

    def expect_network(self) -> None:
        """Its agent knows names already, from before a restore: the tunnels that it asks for wait until ``set_network``."""
        self._early = early = list[Accepted]()

        def wait(asked: Accepted) -> None:
            asked.on_end = partial(_close, asked)
            early.append(asked)

        claims = partial(note_claims, self._inside.denials)
        self._inside.link.accepts = {ops.TUNNEL.name: wait, ops.NAMES_REFUSED.name: claims}

    async def set_network(self, rules: Literal["learn"] | RuleList, way: WayOut) -> None:
        """What can be reached from now on, instead of what could be before; ``policy`` says so. Connections that no rule
        allows any more have ended when this returns. Of ``"learn"`` the gateway knows no rule: it denies all that is asked of
        it, before any name is looked up. Raises ``HostError``, ``SandboxEnded``."""
        async with self._changing:
            if self.end_reason is not None:
                raise SandboxEnded(self.end_reason.value)
            if not rules and self._network is None:  # it has none, and needs no gateway to be told so
                return
            with self._inside.call():
                authority = await self._admit(rules, way)
                await self._tell(Surroundings.of(rules, authority))

    async def _admit(self, rules: Literal["learn"] | RuleList, way: WayOut) -> str | None:
        if self._network is None:  # first: its end withdraws whatever becomes of this
            early = [asked for asked in self._early if not asked.over]
            self._network = Network(self._inside.link, self.id, way, self._inside.denials, early)
        try:
            self._network.learning = False  # until no rule is left: of what is looked at, nothing may reach a server
            authority = await self._network.admit(() if rules == "learn" else rules, self._told)
            self._policy = self._policy.model_copy(update={"network": rules or "none"})  # from here on it is so
        finally:
            self._network.learning = self._policy.network == "learn"
            if self.end_reason is not None:  # it ended meanwhile, and perhaps without its network
                await self._network.end()
        return authority

    async def _tell(self, surroundings: Surroundings) -> None:
        try:
            async with asyncio.timeout(TELL_SECONDS):
                call = await self._inside.link.open(ops.NETWORK, surroundings.params)
                try:
                    await call.answer()
                finally:
                    if not call.over:
                        call.abandon()
        except TimeoutError:
            remedy = "what it may reach has changed all the same; try again, or end it"
            raise HostError(f"the sandbox did not take its names within {TELL_SECONDS:g} s", remedy=remedy) from None
        except FAILURES as caught:
            raise await self._inside.error(caught) from None

    def _told(self, news: Closed | Requested) -> None:
        if isinstance(news, Closed):
            self.used(news)
            return
        if news.denied is not None:
            self._inside.denials.add(_denial(news.denied))
        self.requested(news)

    def used(self, closed: Closed) -> None:
        """A connection has ended."""

    def requested(self, requested: Requested) -> None:
        """A request was looked at, and answered."""


def _close(asked: Accepted) -> None:
    """If nothing else was said."""
    asked.fail(ops.CANCELLED, "the connection is closed")


def _port(claimed: object) -> int:
    """0 for what is no port, which no rule allows."""
    return claimed if isinstance(claimed, int) and 0 < claimed < 65536 else 0


async def _began(asked: Accepted) -> Beginning | None:
    """How the client begins; what it says is looked at and goes nowhere."""
    said = b""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            while isinstance(message := await asked.next(), Data):
                said += message.data
                if (found := beginning(said)) is not None:
                    return found
    except TimeoutError:
        pass
    return "other" if said else None


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _denial(denied: Denied) -> Denial:
    return Denial(denied.host, denied.port, denied.code, denied.reason, denied.remedy)


def sentence(denied: Denied) -> str:
    """What the code inside reads."""
    return f"{denied.reason} {denied.remedy}".strip()
