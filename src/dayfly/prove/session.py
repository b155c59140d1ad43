"""One proof from its beginning to its end: which sandboxes are opened, what is tried in each, what the whole says."""

from __future__ import annotations

import asyncio
import datetime
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from http.client import HTTPException
from typing import Literal, Protocol

from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import DayflyError
from dayfly.policy import Policy
from dayfly.prove.bait import Bait, bait
from dayfly.prove.callers import Served, call_all
from dayfly.prove.canary import Canary
from dayfly.prove.floods import flood
from dayfly.prove.neighbour import neighbour
from dayfly.prove.probe import Expected, Place, Probe
from dayfly.prove.proof import Condition, Kept, Proof, policy_digest, row_of
from dayfly.prove.trials import Outcome, Told, distrusted, examine, try_all
from dayfly.prove.twins import draw_in_both
from dayfly.prove.verdict import Claim, Seen, judge
from dayfly.prove.world import World, world
from dayfly.spec import LimitReport

__all__ = ["Ground", "Session", "prove"]

VARIABLE = "DEPLOY_TOKEN"
"""In the environment of the process that proves, while it does: what a host process has lying about."""


class Ground(Protocol):
    """Where sandboxes are made as they are in production."""

    @property
    def policy(self) -> Policy: ...

    @property
    def host_paths(self) -> Sequence[str]:
        """Paths of this machine that must not be known inside."""
        ...

    def conditions(self) -> Sequence[Condition]:
        """What runs here, with its age."""
        ...

    def closed(self) -> AsyncSandbox:
        """With the policy, and no network."""
        ...

    def named(self, elsewhere: World) -> AsyncSandbox:
        """With the policy, and the network that ``world.RULES`` are, by a gateway that lives there."""
        ...

    def supplied(self, elsewhere: World) -> AsyncSandbox:
        """With the policy, and ``services.RULES``, whose services are there."""
        ...

    def twins(self) -> AbstractAsyncContextManager[tuple[AsyncSandbox, AsyncSandbox]]:
        """Two warm spares with the policy, which are restores of one snapshot that has loaded ``twins.PRELOADED``."""
        ...

    def zone(self) -> AbstractAsyncContextManager[Canary]:
        """The operator's own, where one was named. Raises ``HostError``."""
        ...

    def reaching(self) -> AsyncSandbox:
        """With the policy, and names of nobody's by the gateway of production."""
        ...

    def served(self, never: Mapping[str, str], canary: str) -> AbstractAsyncContextManager[Served]:
        """A server of a manager of its own. Raises ``HostError`` where what it needs is not installed."""
        ...


LOST = (DayflyError, OSError, HTTPException)
"""What a place can fail with: of this product, and of the machine, ``TimeoutError`` among them."""


class Session:
    """``tell`` hears of every probe as it is judged."""

    def __init__(self, ground: Ground, tell: Told = lambda outcome: None) -> None:
        self._ground = ground
        self._tell = tell
        self.outcomes: list[Outcome] = []
        self.limits: Sequence[LimitReport] = ()

    async def carry_out(self, probes: Sequence[Probe]) -> None:
        """Whatever fails, every probe has its outcome in the end, in their order. What looks inward and what looks outward is watched by
        others, and goes on side by side; floods come last, and leave nobody waiting."""
        with _variable() as value:
            async with bait(tuple(self._ground.host_paths)) as prey:
                prey.marks["secret_reversed"] = value[::-1]
                prey.secrets["the host's variable"] = value
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._inward(prey, probes))
                    both.create_task(self._outward(prey, probes))
        for probe in _at(Place.ALONE, probes):
            self.outcomes.append(await flood(self._ground.closed, probe))
            self._tell(self.outcomes[-1])
        order = {probe.id: number for number, probe in enumerate(probes)}
        self.outcomes.sort(key=lambda outcome: order[outcome.probe.id])

    async def _inward(self, prey: Bait, probes: Sequence[Probe]) -> None:
        """One after the other: the bait is one for most of them. And each has a core, where there are two."""
        await self._closed(prey, probes)
        await self._beside(prey, _at(Place.BESIDE, probes))
        await self._restored(_at(Place.RESTORED, probes))

    async def _outward(self, prey: Bait, probes: Sequence[Probe]) -> None:
        await self._elsewhere(_at(Place.NAMED, probes), _at(Place.SUPPLIED, probes))
        await self._delegated(_at(Place.DELEGATED, probes), _at(Place.DELEGATED_NAMED, probes))
        await self._served(prey, _at(Place.SERVED, probes))

    def _lost(self, probes: Sequence[Probe], why: str) -> None:
        lost = [Outcome(probe, judge(probe, Claim(failed=why), Seen())) for probe in probes]
        self.outcomes += lost
        for outcome in lost:
            self._tell(outcome)

    async def _closed(self, prey: Bait, probes: Sequence[Probe]) -> None:
        inside, outside = _at(Place.CLOSED, probes), _at(Place.OUTSIDE, probes)
        if not inside and not outside:
            return
        outcomes: list[Outcome] = []
        try:
            async with self._ground.closed() as sandbox:
                self.limits = sandbox.limits
                outcomes += await try_all(sandbox, prey, inside, self._tell)
                outcomes += examine(sandbox, outside, self._tell)
        except LOST as error:
            self._lost([*inside, *outside][len(outcomes) :], _said(error))
        self.outcomes += outcomes

    async def _beside(self, prey: Bait, probes: Sequence[Probe]) -> None:
        """In a sandbox beside another one, which has left and started what it could."""
        if not probes:
            return
        try:
            async with (
                self._ground.closed() as other,
                self._ground.closed() as sandbox,
                neighbour(other, prey) as scene,
            ):
                self.outcomes += await try_all(sandbox, scene, probes, self._tell)
        except LOST as error:
            self._lost(probes, _said(error))

    async def _served(self, prey: Bait, probes: Sequence[Probe]) -> None:
        if not probes:
            return
        never = {
            **prey.secrets,
            "the first tenant's file": secrets.token_hex(16),
        }
        try:
            async with self._ground.served(never, prey.marks["canary_file"]) as served:
                self.outcomes += await call_all(served, probes, self._tell)
        except LOST as error:
            self._lost(probes, _said(error))

    async def _elsewhere(self, named: Sequence[Probe], supplied: Sequence[Probe]) -> None:
        """To where the proof's own internet is, which is one for both."""
        if not named and not supplied:
            return
        done = 0
        try:
            async with world(secrets.token_hex(16)) as elsewhere:
                for probes, opened in ((named, self._ground.named), (supplied, self._ground.supplied)):
                    self.outcomes += await self._reaching_out(probes, elsewhere, opened)
                    done += len(probes)
        except LOST as error:
            self._lost([*named, *supplied][done:], _said(error))

    async def _restored(self, probes: Sequence[Probe]) -> None:
        if not probes:
            return
        try:
            async with self._ground.twins() as (one, other):
                self.outcomes += await draw_in_both(one, other, probes, self._tell)
        except LOST as error:
            self._lost(probes, _said(error))

    async def _delegated(self, closed: Sequence[Probe], named: Sequence[Probe]) -> None:
        if not closed and not named:
            return
        done = 0
        try:
            async with self._ground.zone() as zone:
                for probes, opened in ((closed, self._ground.closed), (named, self._ground.reaching)):
                    if probes:
                        async with opened() as sandbox:
                            self.outcomes += await try_all(sandbox, zone, probes, self._tell)
                    done += len(probes)
        except LOST as error:
            self._lost([*closed, *named][done:], _said(error))

    async def _reaching_out(
        self, probes: Sequence[Probe], elsewhere: World, opened: Callable[[World], AsyncSandbox]
    ) -> list[Outcome]:
        """The controls among them are made again at the end."""
        if not probes:
            return []
        controls = [probe for probe in probes if probe.expected is Expected.ALLOWED]
        async with opened(elsewhere) as sandbox:
            outcomes = await try_all(sandbox, elsewhere, probes, self._tell)
            again = await try_all(sandbox, elsewhere, controls, lambda outcome: None)
        if strays := elsewhere.strays():
            outcomes = distrusted(outcomes, f"nobody knows whose it was: {'; '.join(strays)}")
        for control in again:
            if not control.judgement.green:
                outcomes = distrusted(outcomes, f"{control.probe.title}: {control.judgement.why}")
        return outcomes


async def prove(
    ground: Ground, probes: Sequence[Probe], *, chosen: Literal["quick", "full"], tell: Told = lambda outcome: None
) -> Proof:
    """Never raises for what fails inside: that is in the report."""
    begun, at = time.monotonic(), datetime.datetime.now(datetime.UTC)
    session = Session(ground, tell)
    await session.carry_out(probes)
    policy = ground.policy
    return Proof(
        at=at,
        seconds=round(time.monotonic() - begun, 1),
        set=chosen,
        image=policy.image,
        policy_digest=policy_digest(policy),
        conditions=tuple(ground.conditions()),
        limits=tuple(
            Kept(name=one.name, value=one.value, enforcement=one.enforcement.value, how=one.how)
            for one in session.limits
        ),
        rows=tuple(row_of(outcome) for outcome in session.outcomes),
    )


@contextmanager
def _variable() -> Iterator[str]:
    before, value = os.environ.get(VARIABLE), secrets.token_hex(16)
    os.environ[VARIABLE] = value
    try:
        yield value
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _at(place: Place, probes: Sequence[Probe]) -> list[Probe]:
    return [probe for probe in probes if probe.place is place]


def _said(error: Exception) -> str:
    """With the remedy, which is all that a person wants to know of it."""
    remedy = getattr(error, "remedy", None)
    return f"{type(error).__name__}: {getattr(error, 'message', error)}" + (f" ({remedy})" if remedy else "")
