"""Makes sandboxes from policies, keeps count of them, and ends them all when it closes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dayfly.boundaries.base import Boundary
from dayfly.errors import HostError, InputError, NoSuchSandbox, PolicyError, SandboxEnded, SnapshotMismatch
from dayfly.limits import LONGEST_PAUSE
from dayfly.manager.admission import Admission, Share
from dayfly.manager.image_source import ImageLease, ImageSource
from dayfly.manager.leased import clear_abandoned
from dayfly.manager.outlet import Outlet
from dayfly.manager.paused import FOR_NOBODY, KeptFor, Paused, Records
from dayfly.manager.pauses import Pauses, whole
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.shelf import Shelf
from dayfly.manager.spares import Spares
from dayfly.manager.tally import Tally
from dayfly.manager.templates import PRESTART, Template
from dayfly.network import Network
from dayfly.owner import Owner
from dayfly.policy import Policy
from dayfly.sandbox import Suspended
from dayfly.saved import SavedOutputs
from dayfly.spec import EndReason, Image, Mount, SandboxSpec

if TYPE_CHECKING:
    from dayfly.manager.outputs import Saving
    from dayfly.paths import Paths

__all__ = ["Manager", "embedded"]

ID_BYTES = 16
"""128 random bits: an id cannot be guessed."""

MAX_ENVIRONMENT = 64 * 1024
"""Bytes of environment variables that a caller may pass in."""


_Begin = Callable[[Boundary, SandboxSpec], Awaitable[RecordedLife]]
"""Makes a life for a spec: cold, or from a snapshot."""


class Manager:
    """Opens and ends sandboxes on one event loop; implements ``dayfly.client.backend.Opener``.

    ``agent_for`` gives the agent's zipapp for an image, as a host path. Without an ``admission`` there are no caps, without
    a directory for ``snapshots`` every spare is warmed by itself, without a ``shelf`` nothing can be paused or forked.
    ``records`` remembers what is paused for the next process; ``outlet`` leads to the gateway, and is closed with it; ``now`` is the wall clock in seconds since 1970.
    """

    def __init__(
        self,
        boundaries: Mapping[str, Boundary],
        images: ImageSource,
        agent_for: Callable[[Image], Path],
        *,
        admission: Admission | None = None,
        snapshots: Path | None = None,
        shelf: Shelf | None = None,
        records: Records | None = None,
        outlet: Outlet | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._boundaries = boundaries
        self._images = images
        self._agent_for = agent_for
        self._admission = admission
        self._snapshots = snapshots
        self._pauses = None if shelf is None else Pauses(shelf, self._hold, records, now)
        self._lives: dict[RecordedLife, asyncio.Task[None]] = {}
        self._shares: dict[RecordedLife, Share] = {}
        self._savings: WeakKeyDictionary[RecordedLife, Saving] = WeakKeyDictionary()
        self._spares: dict[str, Spares] = {}
        self._outlet = outlet or Outlet()
        self.tally = Tally()
        self._sweeping = asyncio.Lock()
        self._swept = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<Manager {', '.join(self._boundaries)}: {len(self._lives)} sandboxes>"

    async def open(
        self,
        policy: Policy,
        *,
        env: Mapping[str, str] | None = None,
        tenant: str = "",
        conversation: str | None = None,
    ) -> RecordedLife:
        """A new sandbox, from a spare where one fits; whose it is chooses which secrets it may use. Raises ``PolicyError``, ``ImageNotFound``, ``BoundaryUnusable``,
        ``LimitUnenforceable``, and ``AdmissionRefused`` where the tenant or the machine has no room."""
        variables = _environment(env)
        life = await self._claim(policy, variables, tenant) or await self._open_cold(policy, variables, tenant)
        life.owner = Owner(tenant, conversation)
        if policy.inputs:
            from dayfly.manager.inputs import bring  # lazily: most sandboxes copy nothing

            await self._or_ended(life, bring(life, self._outlet))
        return await self._connected(life, policy, life.owner)

    async def _claim(self, policy: Policy, env: dict[str, str], tenant: str) -> RecordedLife | None:
        for spares in self._spares.values():
            if not spares.fits(policy):
                continue
            life = await spares.claim(policy, env, lambda life: self._hand_over(life, tenant))
            if life is not None:
                return life
        return None

    async def _connected(self, life: RecordedLife, policy: Policy, owner: Owner) -> RecordedLife:
        """With the network that its policy gives it, and with somebody who saves its outputs. It is ended if that cannot be."""
        life.owner = owner
        if policy.network != "none":
            await self._or_ended(life, life.set_network(policy.network, self._outlet.way(owner)))
        if policy.outputs:
            from dayfly.manager.outputs import Saving  # lazily, as above

            saving = self._savings[life] = Saving(life, self._outlet)
            life.last_act = saving.at_last
        return life

    async def _or_ended(self, life: RecordedLife, doing: Awaitable[None]) -> None:
        try:
            await doing
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(life.close()))
            raise

    def _hand_over(self, life: RecordedLife, tenant: str) -> None:
        """The spare's share becomes the tenant's; it goes back when the sandbox ends. Raises ``AdmissionRefused``."""
        if self._admission is not None and life in self._shares:
            self._admission.hand_over(self._shares[life], tenant)

    @property
    def templates(self) -> Sequence[Template]:
        """Those of which spares are kept."""
        return [spares.template for spares in self._spares.values()]

    @property
    def ready(self) -> Mapping[str, int]:
        """The spares that can be claimed now, by their template's name."""
        return {name: len(spares) for name, spares in self._spares.items()}

    def keep(self, template: Template) -> Spares:
        """Keep spares of a template from now on. Raises ``InputError``, ``PolicyError``."""
        if self._closed:
            raise InputError("this manager is closed")
        if template.name in self._spares:
            raise InputError(f"there are spares of a template {template.name!r} already")
        self._boundary(template.policy.boundary)
        spares = self._spares[template.name] = Spares(
            template, lambda policy: self._open_cold(policy, {}, ""), self._restore_spare, self._snapshots
        )
        return spares

    async def renew_spares(self, template: str) -> None:
        """What they were made of has changed, such as runsc or the image: none of those that wait is handed out any more."""
        if template in self._spares:
            await self._spares[template].renew()

    async def _open_cold(self, policy: Policy, env: dict[str, str], tenant: str) -> RecordedLife:
        def begin(boundary: Boundary, spec: SandboxSpec) -> Awaitable[RecordedLife]:
            return RecordedLife.open(boundary, spec, policy, env=env, prestart=_prestart(spec.image))

        return await self._open(policy, tenant, begin)

    async def _restore_spare(self, policy: Policy, suspended: Suspended) -> RecordedLife:
        def begin(boundary: Boundary, spec: SandboxSpec) -> Awaitable[RecordedLife]:
            return RecordedLife.restore(boundary, suspended, spec, policy, keep_seeds=False)

        return await self._open(policy, "", begin)

    # --- pauses and forks ---------------------------------------------------------------------------------------------

    @property
    def pauses(self) -> Pauses:
        """Raises ``HostError`` where none can be kept."""
        if self._pauses is None:
            raise HostError("this manager has no place for paused sandboxes", remedy="give it a shelf")
        return self._pauses

    @property
    def paused(self) -> Mapping[str, Paused]:
        """By id."""
        return {} if self._pauses is None else self._pauses.all

    async def pause(
        self, sandbox: str, *, seconds: float = LONGEST_PAUSE, owner: KeptFor = FOR_NOBODY, most: int | None = None
    ) -> Paused:
        """See ``Pauses.pause``."""
        return await self.pauses.pause(self._life(sandbox), owner, seconds=seconds, most=most)

    async def set_network(self, sandbox: str, rules: Network) -> None:
        """What a live one may reach from now on, as ``Policy`` has accepted it; see ``NetworkCalls.set_network``. To the end,
        even if the caller is cancelled. Raises ``NoSuchSandbox``, ``SandboxEnded``, ``HostError``, ``JournalUnwritable``."""
        life = self._life(sandbox)
        await whole(life.set_network(() if rules == "none" else rules, self._outlet.way(life.owner)))

    async def save_outputs(self, sandbox: str, *, last: bool = False) -> SavedOutputs:
        """What its policy's ``outputs`` name, now; see ``Saving.on_demand``. Raises ``NoSuchSandbox``, and ``PolicyError`` where there are none."""
        saving = self._savings.get(self._life(sandbox))
        if saving is None:
            raise PolicyError("the policy of this sandbox has no outputs", remedy=_NO_OUTPUTS)
        return await saving.on_demand(last=last)

    async def discard(self, sandbox: str) -> None:
        """See ``Pauses.discard``."""
        await self.pauses.discard(sandbox)

    async def resume(self, sandbox: str) -> RecordedLife:
        """Go on with a paused one, by its id. Raises ``InputError``, ``SnapshotMismatch`` where it cannot go on any more,
        and what ``open`` raises; it stays paused then. ``SandboxEnded`` if it was paused for too long."""
        paused = await self.pauses.find(sandbox)
        policy = await asyncio.to_thread(
            Policy.model_validate, paused.policy.model_dump()
        )  # what it mounts may have changed
        paused = replace(paused, policy=policy)
        if not await asyncio.to_thread(paused.agent.exists):
            raise SnapshotMismatch(("agent",))

        def begin(boundary: Boundary, spec: SandboxSpec) -> Awaitable[RecordedLife]:
            was = _as_it_was(spec, paused)

            def restore(suspended: Suspended) -> Awaitable[RecordedLife]:
                return RecordedLife.restore(boundary, suspended, was, paused.policy, keep_seeds=True)

            return self.pauses.unsealed(paused, restore)

        life = await self._open(paused.policy, paused.owner.tenant, begin, image=paused.image)
        await self._connected(life, paused.policy, paused.owner.whose)
        await self.pauses.alive_again(paused, life)
        return life

    async def fork(self, sandbox: str, count: int = 1, *, tenant: str = "") -> Sequence[RecordedLife]:
        """So many copies that go on from where it is now, each with a life of its own. Generators that code has seeded go on
        alike in all of them; ``renewed`` of each tells which. Raises ``BusyError``, and what ``open`` raises."""
        life = self._life(sandbox)

        async def restore(suspended: Suspended) -> RecordedLife:
            # once: it may be changed meanwhile. Outputs are the original's: both would write the same keys
            policy = life.policy.model_copy(update={"inputs": (), "outputs": ()})

            def begin(boundary: Boundary, spec: SandboxSpec) -> Awaitable[RecordedLife]:
                return RecordedLife.restore(boundary, suspended, spec, policy, keep_seeds=True)

            copy = await self._open(policy, tenant, begin, image=life.spec.image.digest)
            return await self._connected(copy, policy, Owner(tenant))

        return await self.pauses.fork(life, count, restore)

    def _life(self, sandbox: str) -> RecordedLife:
        """Raises ``SandboxEnded`` while it is paused, and ``NoSuchSandbox``."""
        for life in self._lives:
            if life.id == sandbox:
                return life
        if sandbox in self.paused:
            raise SandboxEnded(EndReason.PAUSED.value)
        raise NoSuchSandbox("no such sandbox is alive here", remedy="open a new one")

    async def _open(self, policy: Policy, tenant: str, begin: _Begin, image: str | None = None) -> RecordedLife:
        if self._closed:
            raise InputError("this manager is closed")
        self._boundary(policy.boundary)
        share = None if self._admission is None else await self._admission.take(tenant, policy.limits)
        try:
            life = await self._begin(policy, begin, image or policy.image)
        except BaseException:
            self._release(share)
            raise
        if share is not None:
            self._shares[life] = share
        if self._closed:
            await life.close()
        return life

    async def _begin(self, policy: Policy, begin: _Begin, image: str) -> RecordedLife:
        await self.sweep()
        spec, lease = await self._prepared(policy, image)
        try:
            life = await begin(self._boundary(policy.boundary), spec)
        except BaseException:
            lease.close()
            raise
        life.tally = self.tally
        self._keep(life, lease)
        return life

    def _hold(self, image: str) -> ImageLease:
        return self._images.lease(self._images.resolve(image))

    def _release(self, share: Share | None) -> None:
        if self._admission is not None and share is not None:
            self._admission.release(share)

    def _keep(self, life: RecordedLife, lease: ImageLease) -> None:
        """Count it until it is gone, however it ends; its image and its share are held as long."""

        async def follow() -> None:
            try:
                await life.ended()
            finally:
                lease.close()
                self._lives.pop(life, None)
                self._release(self._shares.pop(life, None))

        self._lives[life] = asyncio.ensure_future(follow())

    async def explain(self, policy: Policy) -> Mapping[str, object]:
        """What ``open`` would generate, without starting anything."""
        spec, lease = await self._prepared(policy, policy.image)
        lease.close()
        return self._boundary(policy.boundary).explain(spec)

    def _boundary(self, name: str) -> Boundary:
        boundary = self._boundaries.get(name)
        if boundary is None:
            raise PolicyError(f"no boundary {name!r} here", remedy=f"there is {', '.join(self._boundaries)}")
        return boundary

    async def sweep(self) -> None:
        """What dead dayfly processes left goes, once: before the first sandbox at the latest. Raises ``HostError``."""
        async with self._sweeping:
            if not self._swept:
                for boundary in self._boundaries.values():
                    await asyncio.to_thread(_sweep, boundary)
                if self._snapshots is not None:
                    await asyncio.to_thread(clear_abandoned, self._snapshots)
                if self._pauses is not None:
                    await self._pauses.load()
                self._swept = True

    async def _prepared(self, policy: Policy, image: str) -> tuple[SandboxSpec, ImageLease]:
        """``_prepare`` in a thread. When cancelled meanwhile, what it has taken hold of is let go."""
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare, policy, image))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            await asyncio.wait({preparing})
            if preparing.exception() is None:
                preparing.result()[1].close()
            raise

    def _prepare(self, policy: Policy, name: str) -> tuple[SandboxSpec, ImageLease]:
        image = self._images.resolve(name)
        lease = self._images.lease(image)
        try:
            return self._spec(policy, image), lease
        except BaseException:
            lease.close()
            raise

    def _spec(self, policy: Policy, image: Image) -> SandboxSpec:
        return SandboxSpec(
            id=secrets.token_hex(ID_BYTES),
            image=image,
            limits=policy.limits,
            agent=self._agent_for(image),
            mounts=tuple(Mount(mount.source, mount.target) for mount in policy.mounts),
            strict=policy.strict,
            accept_unenforced=policy.accept_unenforced,
        )

    async def close(self) -> None:
        """End every sandbox. Idempotent."""
        self._closed = True
        stopped = await asyncio.gather(*(spares.close() for spares in self._spares.values()), return_exceptions=True)
        lives = dict(self._lives)
        await asyncio.gather(*(life.close() for life in lives))
        await asyncio.gather(*lives.values())
        await self._outlet.close()
        if self._pauses is not None:
            await self._pauses.close()
        for failure in stopped:  # not before every sandbox has ended
            if failure is not None:
                raise failure


def embedded(outlet: Outlet | None = None, paths: Paths | None = None, *, courteous: bool = False) -> Manager:
    """A manager for this process, over this machine's runsc and images. Finds out nothing until a sandbox is opened. ``outlet``: another way
    out than this machine's own; ``paths``: another place than this user's; ``courteous``: see ``GvisorBoundary``."""
    from dayfly.agent_bundle import agent_for
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.images import Store
    from dayfly.manager.means import MachineMeans
    from dayfly.paths import default_paths

    paths = paths or default_paths()
    return Manager(
        {"gvisor": GvisorBoundary(paths, courteous=courteous)},
        Store(paths),
        lambda image: agent_for(image, paths.data / "agents"),
        snapshots=paths.data / "snapshots",
        shelf=Shelf(paths.data / "paused", lasting=False),
        outlet=outlet or Outlet(means=MachineMeans.at(paths.secrets)),
    )


_NO_OUTPUTS = "write [[outputs]] into it; a fork has none, so that no two sandboxes write the same keys"


def _as_it_was(spec: SandboxSpec, paused: Paused) -> SandboxSpec:
    """With its own id, the agent that is in its memory, and what is left of its CPU time."""
    left = max(0.0, paused.policy.limits.cpu_seconds - paused.cpu_seconds)
    limits = paused.policy.limits.model_copy(update={"cpu_seconds": left})
    return replace(spec, id=paused.id, agent=paused.agent, limits=limits)


def _sweep(boundary: Boundary) -> None:
    try:
        boundary.sweep()
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise HostError(
            f"what an ended dayfly left cannot be removed: {error.strerror}{where}", remedy="remove it by hand"
        ) from error


def _prestart(image: Image) -> tuple[str, ...]:
    return tuple(language for language in PRESTART if language in image.languages)


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    found = dict(env or {})
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
            raise InputError(f"not an environment variable: {name!r}")
    if sum(len(name) + len(value) for name, value in found.items()) > MAX_ENVIRONMENT:
        raise InputError(f"more than {MAX_ENVIRONMENT} bytes of environment variables")
    return found
