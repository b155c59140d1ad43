from __future__ import annotations

from typing import Any

from dayfly.testing.clock import HeldClockLoop


def pytest_asyncio_loop_factories() -> dict[str, Any]:
    """Every test of this folder that has a loop runs on a clock that is held."""
    return {"held": HeldClockLoop}
