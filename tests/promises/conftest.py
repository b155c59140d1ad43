from __future__ import annotations

from collections.abc import Iterator

import pytest

from dayfly import Sandbox


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One sandbox with the defaults for what leaves it as it was."""
    with Sandbox() as opened:
        yield opened


@pytest.fixture(scope="module")
def used() -> Iterator[list[Sandbox]]:
    """For ``survivor``, which is the last of them."""
    opened: list[Sandbox] = []
    yield opened
    for sandbox in opened:
        sandbox.close()


@pytest.fixture
def survivor(used: list[Sandbox]) -> Sandbox:
    """One sandbox with the defaults for what it must survive, and what costs it a kernel at most. A new one if it did not."""
    if not used or used[-1].end_reason is not None:
        used.append(Sandbox())
    return used[-1]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of the test's own, with the defaults."""
    with Sandbox() as opened:
        yield opened
