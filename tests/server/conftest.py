from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.machine import gvisor_with, image, short_directory
from tests.server.house import TINY, House, house, sandbox_of


@pytest.fixture(scope="package")
def server() -> Iterator[House]:
    """One for all tests of this folder: what they share is the process, as tenants do."""
    image("python")
    image("tiny")
    with gvisor_with("") as boundary, short_directory() as directory, house(boundary, directory) as running:
        yield running


@pytest.fixture
def client(server: House) -> httpx.Client:
    """May make and use sandboxes of the tenant ``t``."""
    return server.client()


@pytest.fixture
def sandbox(client: httpx.Client) -> Iterator[str]:
    """The path of a live sandbox."""
    with sandbox_of(client, TINY) as path:
        yield path


@pytest.fixture(scope="module")
def room(server: House) -> Iterator[str]:
    """The path of one live sandbox, for the tests of a module that leave nothing running in it and do not ask what is there."""
    with sandbox_of(server.client(), TINY) as path:
        yield path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that only this user can enter."""
    tmp_path.chmod(0o700)
    return tmp_path
