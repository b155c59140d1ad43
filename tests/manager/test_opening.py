"""Opening over a scripted boundary: what is held is let go, and what was left is cleared before anything starts."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from dayfly.errors import HostError
from dayfly.manager import Manager
from dayfly.policy import Policy
from dayfly.spec import Image
from dayfly.testing.scripted import Asked, ScriptedBoundary


class Lease:
    def __init__(self, images: Images) -> None:
        self.images = images
        images.open += 1

    def close(self) -> None:
        self.images.open -= 1


class Images:
    """One image that may be slow to find."""

    def __init__(self) -> None:
        self.open = 0
        self.asked = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def resolve(self, name: str) -> Image:
        self.asked.set()
        self.may_go_on.wait(10)
        return Image(name, "sha256:0", "amd64", Path("/nonexistent"))

    def lease(self, image: Image) -> Lease:
        return Lease(self)


class Boundary(ScriptedBoundary):
    """Sweeps as it is told."""

    def __init__(self) -> None:
        async def script(asked: Asked) -> None:
            await asked.finish()

        super().__init__(script)
        self.swept: list[str] = []
        self.failure: OSError | None = None

    def sweep(self) -> int:
        self.swept.append("sweep")
        if self.failure is not None:
            raise self.failure
        return 0


def manager(images: Images, boundary: Boundary) -> Manager:
    return Manager({"gvisor": boundary}, images, lambda image: Path("/nonexistent"))


async def test_an_image_is_held_as_long_as_its_sandbox_lives() -> None:
    images = Images()
    many = manager(images, Boundary())
    life = await many.open(Policy())
    assert images.open == 1
    await life.close()
    await many.close()
    assert images.open == 0


async def test_an_opening_that_is_cancelled_lets_go_of_the_image() -> None:
    images = Images()
    images.may_go_on.clear()
    many = manager(images, Boundary())
    opening = asyncio.ensure_future(many.open(Policy()))
    await asyncio.to_thread(images.asked.wait, 10)
    opening.cancel()
    images.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert images.open == 0


async def test_the_first_opening_sweeps_and_the_others_wait_for_it() -> None:
    boundary = Boundary()
    many = manager(Images(), boundary)
    await asyncio.gather(*(many.open(Policy()) for _ in range(5)))
    assert boundary.swept == ["sweep"]
    await many.close()


async def test_a_sweep_that_fails_is_a_clear_error_and_is_tried_again() -> None:
    boundary = Boundary()
    boundary.failure = PermissionError(errno.EACCES, "Permission denied", "/cells/x")
    many = manager(Images(), boundary)
    with pytest.raises(HostError, match=r"/cells/x.*by hand"):
        await many.open(Policy())
    boundary.failure = None
    await (await many.open(Policy())).close()
    assert boundary.swept == ["sweep", "sweep"]
    await many.close()
