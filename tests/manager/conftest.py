from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from dayfly.testing.clock import HeldClockLoop
from tests.manager.house import House, house


def pytest_asyncio_loop_factories() -> dict[str, Any]:
    """Every test of this folder runs on a clock that is held."""
    return {"held": HeldClockLoop}


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as made:
        yield made
