"""The manager's hold on the gateway: started when the first sandbox needs it, and anew if it dies.

Law: a gateway that is gone stops traffic. Whoever then connects has another one started, which learns the rules of all that
live before it does anything for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from dayfly.egress.authority import make_authority
from dayfly.egress.client import Closed, EgressDenied, Gateway, Requested, Tunnel
from dayfly.egress.denials import left_out, not_running
from dayfly.egress.terms import Terms
from dayfly.errors import HostError, PolicyError
from dayfly.manager.use import Use
from dayfly.network import PackageKind, RuleList
from dayfly.owner import NOBODY, Owner

__all__ = ["Means", "Outlet", "Way"]

RESTART_SECONDS = 1.0
"""Between two starts, for which whoever wants one waits: one that dies of what it is asked to do is not to keep the machine busy."""

WITHDRAW_SECONDS = 5.0
"""For the last words about a sandbox's tunnels, for which the gateway waits 3 s at most."""

MOST_REMEMBERED = 10_000
"""Sandboxes without a way out whose use is remembered: one that was paused goes on with what is left of its ``max_bytes``."""

Told = Callable[[Closed | Requested], None]

_ANOTHER = "make another manager"


class Means(Protocol):
    """What rules need beside themselves."""

    async def secrets(self, rules: RuleList, owner: Owner) -> dict[str, str]:
        """Values by name, for those that the owner may use where the rules lead. Raises ``PolicyError`` where one is missing."""
        ...

    async def indexes(self, rules: RuleList) -> dict[PackageKind, str]:
        """URLs of the package indexes that the rules need. Raises ``PolicyError`` where this machine has none."""
        ...


class NoMeans:
    """Where there are none."""

    async def secrets(self, rules: RuleList, owner: Owner) -> dict[str, str]:
        names = sorted(name for rule in rules for name in rule.secrets)
        if names:
            raise PolicyError(f"there is no secret {names[0]!a} here", remedy="give this manager a store of secrets")
        return {}

    async def indexes(self, rules: RuleList) -> dict[PackageKind, str]:
        return {}


@dataclass(frozen=True)
class Way:
    """The ``WayOut`` of one owner's sandboxes."""

    outlet: Outlet
    owner: Owner

    async def admit(self, sandbox: str, rules: RuleList, told: Told) -> str | None:
        return await self.outlet.admit(sandbox, rules, told, self.owner)

    async def withdraw(self, sandbox: str) -> None:
        await self.outlet.withdraw(sandbox)

    async def connect(self, sandbox: str, host: str, port: int, early: bytes) -> Tunnel:
        return await self.outlet.connect(sandbox, host, port, early)


@dataclass
class _Known:
    terms: Terms
    told: Told
    use: Use
    refusal: HostError | None = None  # of the gateway that there is, to take these rules

    @property
    def rules(self) -> RuleList:
        return self.terms.rules

    @property
    def left(self) -> Terms:
        return self.terms.model_copy(update={"rules": self.use.left(self.rules)})

    def keep(self, rules: RuleList) -> None:
        """Of its rules only these."""
        self.terms = self.terms.model_copy(update={"rules": tuple(rule for rule in self.rules if rule in rules)})


class Outlet:
    """On one loop. ``start`` starts a gateway."""

    def __init__(self, start: Callable[[], Awaitable[Gateway]] = Gateway.start, means: Means | None = None) -> None:
        self._start = start
        self._means = means or NoMeans()
        self._gateway: Gateway | None = None
        self._starting: asyncio.Task[Gateway] | None = None  # nobody's own: who waits for it may go
        self._started_at = float("-inf")
        self._known: dict[str, _Known] = {}
        self._past: dict[str, Use] = {}  # of those that are not known any more, the latest last
        self._closed = False

    def __repr__(self) -> str:
        state = "off" if self._gateway is None else "lost" if self._gateway.lost.is_set() else "up"
        return f"<Outlet {state}: {len(self._known)} sandboxes>"

    def way(self, owner: Owner) -> Way:
        """Out, for a sandbox of ``owner``'s."""
        return Way(self, owner)

    async def admit(self, sandbox: str, rules: RuleList, told: Told, owner: Owner = NOBODY) -> str | None:
        """From now on the sandbox may reach what ``rules`` name, and nothing else. ``told`` hears of every connection that has
        ended, and of every request that was looked at. Returns the certificate of the authority that it is to believe, as PEM.

        Raises ``PolicyError`` where a rule cannot have what it needs: nothing has changed then. Raises ``HostError``; a later gateway
        then allows what both these rules and those before did, until it is withdrawn."""
        terms = await self._terms(sandbox, rules, owner)
        before = self._known.get(sandbox)
        use = before.use if before is not None else self._past.pop(sandbox, Use())
        known = self._known[sandbox] = _Known(terms, told, use)
        try:
            gateway = await self._running()
            await self._tell(gateway, sandbox, known)
        except BaseException:
            known.keep(before.rules if before is not None else ())
            raise
        return terms.authority.certificate if terms.authority and _looks_inside(rules) else None

    async def _terms(self, sandbox: str, rules: RuleList, owner: Owner) -> Terms:
        """Its authority stays the same as long as it has a way out."""
        known = self._known.get(sandbox)
        authority = known.terms.authority if known is not None else None
        if authority is None and _looks_inside(rules):
            authority = await asyncio.to_thread(make_authority)
        _check_signer(rules)
        secrets = await self._means.secrets(rules, owner)
        return Terms(rules=rules, authority=authority, secrets=secrets, indexes=await self._means.indexes(rules))

    async def _tell(self, gateway: Gateway, sandbox: str, known: _Known) -> None:
        try:
            await gateway.admit(sandbox, known.left)
        except HostError:
            if not gateway.lost.is_set():
                raise
            gateway = await self._running()  # the next one knows it already
            if known.refusal is not None:
                raise known.refusal from None
        else:
            known.refusal = None
        if sandbox not in self._known:  # withdrawn meanwhile
            await gateway.withdraw(sandbox)

    async def withdraw(self, sandbox: str) -> None:
        """Its connections end, and are told of before this returns."""
        known, gateway = self._known.get(sandbox), self._gateway
        if known is None:
            return
        try:
            if gateway is not None:
                with suppress(HostError, TimeoutError):
                    async with asyncio.timeout(WITHDRAW_SECONDS):
                        await gateway.withdraw(sandbox)
        finally:
            if self._known.get(sandbox) is known:
                del self._known[sandbox]
                self._remember(sandbox, known.use)

    async def connect(self, sandbox: str, host: str, port: int, early: bytes = b"") -> Tunnel:
        """See ``Gateway``. Raises ``EgressDenied`` and ``EgressUnreachable``."""
        try:
            gateway = await self._running()
        except HostError as error:
            raise EgressDenied(not_running(host, port)) from error
        known = self._known.get(sandbox)
        if known is not None and known.refusal is not None:
            raise EgressDenied(left_out(host, port)) from known.refusal
        return await gateway.connect(sandbox, host, port, early)

    async def close(self) -> None:
        """There is no gateway when this returns, and never one again. Idempotent."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._gateway is not None:
            await self._gateway.close()

    async def _running(self) -> Gateway:
        """Raises ``HostError`` where none can be started now."""
        if self._closed:
            raise HostError("there is no way out any more: its manager is closed", remedy=_ANOTHER)
        if self._gateway is not None and not self._gateway.lost.is_set():
            return self._gateway
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._anew())
            self._starting.add_done_callback(self._has_started)
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise HostError("there is no way out any more: its manager is closed", remedy=_ANOTHER) from None
            raise

    def _has_started(self, starting: asyncio.Task[Gateway]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # seen: nobody may be waiting

    async def _anew(self) -> Gateway:
        loop = asyncio.get_running_loop()
        if (wait := self._started_at + RESTART_SECONDS - loop.time()) > 0:
            await asyncio.sleep(wait)
        self._started_at = loop.time()
        if self._gateway is not None:
            await self._gateway.close()
        gateway = await self._start()
        try:
            gateway.on_closed = self._ended
            gateway.on_request = self._requested
            await self._introduce(gateway)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(gateway.close()))
            raise
        self._gateway = gateway
        return gateway

    async def _introduce(self, gateway: Gateway) -> None:
        """It knows all that live, and nobody else; they come and go meanwhile. One that it does not take is left out: that is no
        reason for the others to have no gateway."""
        told: set[str] = set()
        while more := self._known.keys() ^ told:
            sandbox = more.pop()
            if sandbox in self._known:
                known = self._known[sandbox]
                known.use.begin()
                known.refusal = await _refusal(gateway, sandbox, known.left)
                told.add(sandbox)
            else:
                await gateway.withdraw(sandbox)
                told.discard(sandbox)

    def _ended(self, sandbox: str, closed: Closed) -> None:
        known = self._known.get(sandbox)
        if known is not None:
            known.use.add(known.rules, closed)
            known.told(closed)

    def _requested(self, sandbox: str, requested: Requested) -> None:
        known = self._known.get(sandbox)
        if known is not None:
            known.told(requested)

    def _remember(self, sandbox: str, use: Use) -> None:
        use.begin()
        if use:
            self._past[sandbox] = use
        if len(self._past) > MOST_REMEMBERED:
            del self._past[next(iter(self._past))]


async def _refusal(gateway: Gateway, sandbox: str, terms: Terms) -> HostError | None:
    """Raises ``HostError`` where it is the gateway that has failed."""
    try:
        await gateway.admit(sandbox, terms)
    except HostError as error:
        if gateway.lost.is_set():
            raise
        return error
    return None


def _looks_inside(rules: RuleList) -> bool:
    """Of TLS: whether there is anybody to show the authority's certificates."""
    return any(rule.service and rule.spoken == "tls" for rule in rules)


def _check_signer(rules: RuleList) -> None:
    """Raises ``PolicyError`` where the gateway would have nothing to sign with."""
    if any(rule.service == "objects" for rule in rules) and find_spec("botocore") is None:
        raise PolicyError("rules for objects need botocore", remedy="pip install 'dayfly[objects]'")
