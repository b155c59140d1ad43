"""Makes sandboxes from policies, keeps count of them, and ends them all when it closes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dayfly.boundaries.base import Boundary
from dayfly.errors import HostError, InputError, PolicyError
from dayfly.manager.admission import Admission, Share
from dayfly.manager.mould import clear_abandoned
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.spares import Spares
from dayfly.manager.templates import PRESTART, Template
from dayfly.policy import Policy
from dayfly.sandbox import Suspended
from dayfly.spec import Image, Mount, SandboxSpec

__all__ = ["ImageLease", "ImageSource", "Manager", "embedded"]

ID_BYTES = 16
"""128 random bits: an id cannot be guessed."""

MAX_ENVIRONMENT = 64 * 1024
"""Bytes of environment variables that a caller may pass in."""


class ImageLease(Protocol):
    """Keeps an image from being removed while a sandbox uses it."""

    def close(self) -> None: ...


class ImageSource(Protocol):
    """Where built images come from: ``dayfly.images.Store``."""

    def resolve(self, name: str) -> Image: ...
    def lease(self, image: Image) -> ImageLease: ...


class Manager:
    """Opens and ends sandboxes on one event loop; implements ``dayfly.client.backend.Opener``.

    ``agent_for`` gives the agent's zipapp for an image, as a host path. Without an ``admission`` there are no caps, without
    a directory for ``snapshots`` every spare is warmed by itself.
    """

    def __init__(
        self,
        boundaries: Mapping[str, Boundary],
        images: ImageSource,
        agent_for: Callable[[Image], Path],
        *,
        admission: Admission | None = None,
        snapshots: Path | None = None,
    ) -> None:
        self._boundaries = boundaries
        self._images = images
        self._agent_for = agent_for
        self._admission = admission
        self._snapshots = snapshots
        self._lives: dict[RecordedLife, asyncio.Task[None]] = {}
        self._shares: dict[RecordedLife, Share] = {}
        self._spares: dict[str, Spares] = {}
        self._sweeping = asyncio.Lock()
        self._swept = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<Manager {', '.join(self._boundaries)}: {len(self._lives)} sandboxes>"

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None, tenant: str = "") -> RecordedLife:
        """A new sandbox, from a spare where one fits. Raises ``PolicyError``, ``ImageNotFound``, ``BoundaryUnusable``,
        ``LimitUnenforceable``, and ``AdmissionRefused`` where the tenant or the machine has no room."""
        variables = _environment(env)
        for spares in self._spares.values():
            if not spares.fits(policy):
                continue
            life = await spares.claim(policy, variables, lambda life: self._hand_over(life, tenant))
            if life is not None:
                return life
        return await self._open(policy, variables, tenant)

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
            template, lambda policy: self._open(policy, {}, ""), self._restore_spare, self._snapshots
        )
        return spares

    async def _restore_spare(self, policy: Policy, suspended: Suspended) -> RecordedLife:
        return await self._open(policy, {}, "", suspended)

    async def _open(
        self, policy: Policy, variables: dict[str, str], tenant: str, suspended: Suspended | None = None
    ) -> RecordedLife:
        if self._closed:
            raise InputError("this manager is closed")
        self._boundary(policy.boundary)
        share = None if self._admission is None else await self._admission.take(tenant, policy.limits)
        try:
            life = await self._begin(policy, variables, suspended)
        except BaseException:
            self._release(share)
            raise
        if share is not None:
            self._shares[life] = share
        if self._closed:
            await life.close()
        return life

    async def _begin(self, policy: Policy, env: dict[str, str], suspended: Suspended | None) -> RecordedLife:
        """A cold one, or one that goes on from a snapshot."""
        await self.sweep()
        spec, lease = await self._prepared(policy)
        boundary = self._boundary(policy.boundary)
        try:
            if suspended is None:
                life = await RecordedLife.open(boundary, spec, policy, env=env, prestart=_prestart(spec.image))
            else:
                life = await RecordedLife.restore(boundary, suspended, spec, policy, keep_seeds=False)
        except BaseException:
            lease.close()
            raise
        self._keep(life, lease)
        return life

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
        spec, lease = await self._prepared(policy)
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
                self._swept = True

    async def _prepared(self, policy: Policy) -> tuple[SandboxSpec, ImageLease]:
        """``_prepare`` in a thread. When cancelled meanwhile, what it has taken hold of is let go."""
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare, policy))
        try:
            return await asyncio.shield(preparing)
        except asyncio.CancelledError:
            await asyncio.wait({preparing})
            if preparing.exception() is None:
                preparing.result()[1].close()
            raise

    def _prepare(self, policy: Policy) -> tuple[SandboxSpec, ImageLease]:
        image = self._images.resolve(policy.image)
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
        for failure in stopped:  # not before every sandbox has ended
            if failure is not None:
                raise failure


def embedded() -> Manager:
    """A manager for this process, over this machine's runsc and images. Finds out nothing until a sandbox is opened."""
    from dayfly.agent_bundle import agent_for
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.images import Store
    from dayfly.paths import default_paths

    paths = default_paths()
    return Manager(
        {"gvisor": GvisorBoundary(paths)},
        Store(paths),
        lambda image: agent_for(image, paths.data / "agents"),
        snapshots=paths.data / "snapshots",
    )


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
