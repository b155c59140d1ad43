"""Real runscs, one small image built once, and subjects of the contract kit over places of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.runtime import find_runsc
from dayfly.testing.boundary_contract import Subject
from dayfly.testing.echo import build_echo_agent
from dayfly.testing.subjects import fake_subject, gvisor_subject, restored_subject
from tests.machine import image, named, runscs, short_directory


@pytest.fixture(params=runscs(), ids=named)
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
    return image("tiny").rootfs


@pytest.fixture(scope="session")
def agent() -> Iterator[Path]:
    """The kit's stand-in agent."""
    with short_directory() as directory:
        yield build_echo_agent(directory)


@pytest.fixture
def data() -> Iterator[Path]:
    """A data directory."""
    with short_directory() as directory:
        yield directory


@pytest.fixture
def fake(agent: Path, data: Path) -> Subject:
    return fake_subject(json.dumps({"agent": str(agent), "data": str(data)}))


@pytest.fixture
def gvisor(runsc: Path, agent: Path, data: Path, rootfs: Path) -> Subject:
    return gvisor_subject(json.dumps({"agent": str(agent), "data": str(data), "rootfs": str(rootfs)}))


@pytest.fixture(scope="module")
def snapshots() -> Iterator[Path]:
    """A directory for what the module's cells are restored from."""
    with short_directory() as directory:
        yield directory


@pytest.fixture
def restored(runsc: Path, agent: Path, data: Path, rootfs: Path, snapshots: Path) -> Subject:
    """gVisor, and every cell was restored from a snapshot."""
    places = {"agent": agent, "data": data, "rootfs": rootfs, "snapshots": snapshots}
    return restored_subject(json.dumps({name: str(path) for name, path in places.items()}))
