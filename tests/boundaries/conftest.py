"""Real runscs, one small image built once, and subjects of the contract kit over places of their own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.errors import ImageNotFound
from dayfly.images import Store, build, load_recipe
from dayfly.runtime import find_runsc
from dayfly.testing.boundary_contract import Subject
from dayfly.testing.echo import build_echo_agent
from dayfly.testing.subjects import fake_subject, gvisor_subject

RECIPES = Path(__file__).parent.parent / "recipes"


def runscs() -> list[str]:
    """The runsc of this machine, and those that ``DAYFLY_RUNSC_ALSO`` names (separated by colons)."""
    also = os.environ.get("DAYFLY_RUNSC_ALSO", "")
    return ["", *(path for path in also.split(":") if path)]


@pytest.fixture(params=runscs(), ids=lambda path: Path(path).name or "runsc")
def runsc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each runsc in turn, as the one to use. A missing one fails."""
    if request.param:
        monkeypatch.setenv("DAYFLY_RUNSC", request.param)
    else:
        monkeypatch.setenv("DAYFLY_RUNSC", str(find_runsc().path))  # before a test moves the data directory
    return find_runsc().path


@pytest.fixture(scope="session")
def rootfs() -> Path:
    """Of the smallest image; built if it is not there."""
    try:
        return Store().resolve("tiny").rootfs
    except ImageNotFound:
        return build(load_recipe(RECIPES / "tiny.toml")).rootfs


@pytest.fixture(scope="session")
def agent() -> Iterator[Path]:
    """The kit's stand-in agent."""
    directory = Path(tempfile.mkdtemp(prefix="dfa"))
    yield build_echo_agent(directory)
    shutil.rmtree(directory)


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory with a short path: sockets lie in it."""
    directory = Path(tempfile.mkdtemp(prefix="dft"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def fake(agent: Path, data: Path) -> Subject:
    return fake_subject(json.dumps({"agent": str(agent), "data": str(data)}))


@pytest.fixture
def gvisor(runsc: Path, agent: Path, data: Path, rootfs: Path) -> Subject:
    return gvisor_subject(json.dumps({"agent": str(agent), "data": str(data), "rootfs": str(rootfs)}))
