"""What this machine offers to tests: each runsc, images, and gVisor over a data directory of its own.

Images come from the user's own store, so that ``make test`` need not build them every time. To it the tests add those of
their own recipes, ``tiny`` and ``python39``, a shipped one that is missing, and the agent's bundle of this source tree; nothing
in it is changed or removed.
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.errors import ImageNotFound
from dayfly.images import Store, build, load_recipe, recipe_names, shipped_recipe
from dayfly.paths import Paths, default_paths, make_directory
from dayfly.runtime import find_runsc
from dayfly.spec import Image

RECIPES = Path(__file__).parent / "recipes"

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For HTTP clients that speak none; it believes nobody. To read all that this machine believes takes each client 40 ms."""


def runscs() -> list[str]:
    """The runsc of this machine (""), and those that ``DAYFLY_RUNSC_ALSO`` names (separated by colons)."""
    also = os.environ.get("DAYFLY_RUNSC_ALSO", "")
    return ["", *(path for path in also.split(":") if path)]


def named(runsc: str) -> str:
    """For a test's id."""
    return Path(runsc).name or "runsc"


def image(name: str) -> Image:
    """A built image, shipped or of the tests' own; built if it is not there."""
    try:
        return Store().resolve(name)
    except ImageNotFound:
        return build(shipped_recipe(name) if name in recipe_names() else load_recipe(RECIPES / f"{name}.toml"))


def local_names() -> list[str]:
    """This machine's names for its loopback, but for ``localhost``, which is the sandbox's own inside of one."""
    lines = Path("/etc/hosts").read_text("utf-8").splitlines()
    rows = [line.partition("#")[0].split() for line in lines]
    found = [name for row in rows if row and row[0].startswith("127.") for name in row[1:]]
    names = [name for name in found if not name.startswith("localhost")]
    assert names or not os.environ.get("CI"), (
        "CI needs a name for its loopback in /etc/hosts: what needs it is skipped else"
    )
    return names


@contextmanager
def short_directory() -> Iterator[Path]:
    """For data: with a short path, since sockets lie in it."""
    directory = Path(tempfile.mkdtemp(prefix="dft"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@contextmanager
def furnished_directory() -> Iterator[Path]:
    """For data, and with what takes long to get: this user's runsc, images and bundles of the agent are in it."""
    agents = default_paths().data / "agents"
    make_directory(agents)
    with short_directory() as directory:
        for shared in (default_paths().bin, default_paths().images, agents):
            (directory / shared.name).symlink_to(shared)
        yield directory


@contextmanager
def gvisor_with(runsc: str) -> Iterator[GvisorBoundary]:
    """gVisor with this runsc ("": the one that dayfly finds; a missing one fails), over a data directory of its own."""
    with short_directory() as data, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYFLY_RUNSC", runsc or str(find_runsc().path))
        yield GvisorBoundary(Paths(data, data / "run"))
