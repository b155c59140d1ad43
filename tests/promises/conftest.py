from __future__ import annotations

from collections.abc import Iterator

import pytest

from dayfly import Sandbox


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One sandbox with the defaults for what leaves it as it was."""
    with Sandbox() as opened:
        yield opened


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of the test's own, with the defaults."""
    with Sandbox() as opened:
        yield opened
