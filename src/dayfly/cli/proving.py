"""The ground of a proof on this machine: sandboxes of an embedded manager, as ``dayfly run`` has them."""

from __future__ import annotations

import asyncio
import datetime
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dayfly import __version__
from dayfly.cli.absent import absent, conditions_of
from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import DayflyError, HostError
from dayfly.network import Network, ObjectsRule, Rule, RuleList
from dayfly.paths import Paths, default_paths
from dayfly.policy import Policy
from dayfly.prove import RULES, Condition, World, services
from dayfly.prove.callers import Served
from dayfly.prove.canary import Canary, canary
from dayfly.prove.conditions import aged, machine
from dayfly.prove.twins import PRELOADED
from dayfly.runtime import SETUP_REMEDY, find_runsc

if TYPE_CHECKING:
    from dayfly.manager import Manager
    from dayfly.server import Configuration

__all__ = ["Delegated", "Here"]


NOBODYS = (Rule(host="listed.example.com"),)
"""A rule that leads nowhere: names are allowed, and none of those that are asked for."""


WARM_SECONDS = 60.0
"""For two spares. They take three on a quiet machine."""


@dataclass(frozen=True)
class Delegated:
    """A zone of the operator's, and where its name server is to listen."""

    domain: str
    address: str
    port: int


@dataclass
class Here:
    """A ``Ground``. On the loop that opened it; its managers end with it. ``configuration``: of the server whose sandboxes they would be; ``rules``: of the
    sandboxes with names; ``supplies``: of those with services; ``delegated``: a zone of the operator's; ``preload``: what spares
    have loaded beside what the proof needs."""

    policy: Policy
    paths: Paths = field(default_factory=default_paths)
    configuration: Configuration | None = None
    rules: RuleList = RULES
    supplies: RuleList = services.RULES
    delegated: Delegated | None = None
    preload: tuple[str, ...] = ()
    _managers: list[Manager] = field(default_factory=list)
    _of_closed: Manager | None = None

    @property
    def host_paths(self) -> Sequence[str]:
        return (str(self.paths.data), str(Path.home()), "/var/lib/", "lowerdir")

    def conditions(self) -> Sequence[Condition]:
        today = datetime.datetime.now(datetime.UTC).date()
        own = [Condition(name="dayfly", value=__version__), self._runsc(today), self._image(today)]
        return [*own, *conditions_of(absent()), *machine()]

    def _runsc(self, today: datetime.date) -> Condition:
        try:
            runsc = find_runsc(self.paths)
        except DayflyError as error:
            return Condition(name="runsc", value=error.message, state="red", remedy=error.remedy or "")
        return aged("runsc", runsc.version, runsc.date, today, f"{SETUP_REMEDY} --from release")

    def _image(self, today: datetime.date) -> Condition:
        from dayfly.images import Store

        name = self.policy.image
        remedy = f"dayfly images build {name}"
        for one in Store(self.paths).list():
            if name in one.names and one.created[:4].isdigit():
                made = datetime.datetime.fromisoformat(one.created).date()
                return aged("image", f"{name} ({one.image.digest[:19]})", made, today, remedy)
        return Condition(name="image", value=f"{name} is not built", state="red", remedy=remedy)

    def closed(self) -> AsyncSandbox:
        return AsyncSandbox(self._with("none"), opener=self._manager())

    def named(self, elsewhere: World) -> AsyncSandbox:
        return self._outward(elsewhere, self.rules)

    def supplied(self, elsewhere: World) -> AsyncSandbox:
        """Without an object store where nobody could use one."""
        left_out = ObjectsRule if find_spec("botocore") is None else ()
        return self._outward(elsewhere, tuple(rule for rule in self.supplies if not isinstance(rule, left_out)))

    def reaching(self) -> AsyncSandbox:
        return AsyncSandbox(self._with(NOBODYS), opener=self._manager())

    @asynccontextmanager
    async def twins(self) -> AsyncIterator[tuple[AsyncSandbox, AsyncSandbox]]:
        from dayfly.manager import Template, embedded

        manager = self._kept(embedded(paths=self.paths, courteous=self._courteous))
        policy = self._with("none")
        spares = manager.keep(Template("proof", policy, spares=2, preload=(*PRELOADED, *self.preload)))
        try:
            async with asyncio.timeout(WARM_SECONDS):
                await spares.full()
        except TimeoutError:
            raise spares.failure or HostError(
                "no spares are warm in time", remedy="see what loads this machine"
            ) from None
        async with AsyncSandbox(policy, opener=manager) as one, AsyncSandbox(policy, opener=manager) as other:
            yield one, other

    @asynccontextmanager
    async def zone(self) -> AsyncIterator[Canary]:
        if self.delegated is None:
            raise HostError("no zone was named", remedy="give --canary-domain")
        async with canary(self.delegated.domain, self.delegated.address, self.delegated.port) as made:
            yield made

    def _outward(self, elsewhere: World, rules: RuleList) -> AsyncSandbox:
        from dayfly.manager import embedded
        from dayfly.manager.outlet import Outlet

        outlet = Outlet(elsewhere.start, elsewhere.services)
        manager = self._kept(embedded(outlet, self.paths, courteous=self._courteous))
        return AsyncSandbox(self._with(rules), opener=manager)

    @asynccontextmanager
    async def served(self, never: Mapping[str, str], canary: str) -> AsyncIterator[Served]:
        """A server of this process, on a port of loopback, whose keys and journal are gone with it."""
        from dayfly.cli.serve import configured
        from dayfly.cli.serving import proof_of, serving
        from dayfly.server import Places

        configuration = proof_of(self.configuration or configured(None))
        with tempfile.TemporaryDirectory(prefix="dayfly-proof-") as directory:
            own = Path(directory)
            async with serving(configuration, Places(self.paths, own / "secrets", own / "server")) as made:
                first, second, reader = made.keys
                yield Served(made.url, first, second, reader, never, canary, made.journal, made.public_key)

    def _with(self, network: Network) -> Policy:
        """The policy with that network. Nothing is copied in or out: a proof leaves the stores of others alone."""
        return self.policy.model_copy(update={"network": network, "inputs": (), "outputs": ()})

    @property
    def _courteous(self) -> bool:
        return self.configuration is not None and self.configuration.machine.courteous

    def _manager(self) -> Manager:
        from dayfly.manager import embedded

        if self._of_closed is None:
            self._of_closed = self._kept(embedded(paths=self.paths, courteous=self._courteous))
        return self._of_closed

    def _kept(self, manager: Manager) -> Manager:
        """Closed with this."""
        self._managers.append(manager)
        return manager

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for manager in self._managers:
            await manager.close()
