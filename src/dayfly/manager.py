"""Many lives: makes sandboxes from policies, keeps count of them, and ends them all when it closes.

(The lifecycle engine of a server, with admission, spares and the journal, grows here.)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from dayfly.boundaries.base import Boundary
from dayfly.errors import InputError, PolicyError
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.spec import Image, Mount, SandboxSpec

__all__ = ["ImageSource", "Manager"]

PRESTART = ("python",)
"""Kernels that start with the sandbox: nearly every conversation begins with Python."""

ID_BYTES = 16
"""128 random bits: an id cannot be guessed."""

MAX_ENVIRONMENT = 64 * 1024
"""Bytes of environment variables that a caller may pass in."""


class ImageSource(Protocol):
    """Where built images come from: ``dayfly.images.Store``."""

    def resolve(self, name: str) -> Image: ...


class Manager:
    """Opens and ends sandboxes on one event loop; implements ``dayfly.client.backend.Opener``.

    ``agent_for`` gives the agent's zipapp for an image, as a host path.
    """

    def __init__(
        self, boundaries: Mapping[str, Boundary], images: ImageSource, agent_for: Callable[[Image], Path]
    ) -> None:
        self._boundaries = boundaries
        self._images = images
        self._agent_for = agent_for
        self._lives: set[Life] = set()
        self._swept = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<Manager {', '.join(self._boundaries)}: {len(self._lives)} sandboxes>"

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> Life:
        """A new sandbox. Raises ``PolicyError``, ``ImageNotFound``, ``BoundaryUnusable``, ``LimitUnenforceable``."""
        if self._closed:
            raise InputError("this manager is closed")
        boundary = self._boundary(policy.boundary)
        await self._sweep_once()
        spec = await asyncio.to_thread(self._spec, policy)
        life = await Life.open(boundary, spec, policy, env=_environment(env), prestart=_prestart(spec.image))
        self._lives.add(life)
        if self._closed:
            await life.close()
        return life

    async def explain(self, policy: Policy) -> Mapping[str, object]:
        """What ``open`` would generate, without starting anything."""
        spec = await asyncio.to_thread(self._spec, policy)
        return self._boundary(policy.boundary).explain(spec)

    def _boundary(self, name: str) -> Boundary:
        boundary = self._boundaries.get(name)
        if boundary is None:
            raise PolicyError(f"no boundary {name!r} here; there is {', '.join(self._boundaries)}")
        return boundary

    async def _sweep_once(self) -> None:
        """What dead dayfly processes left goes at the first start of the next one."""
        if not self._swept:
            self._swept = True
            for boundary in self._boundaries.values():
                await asyncio.to_thread(boundary.sweep)

    def _spec(self, policy: Policy) -> SandboxSpec:
        image = self._images.resolve(policy.image)
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
        lives, self._lives = self._lives, set()
        await asyncio.gather(*(life.close() for life in lives))


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
