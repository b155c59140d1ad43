"""A sandbox over a scripted agent, and the answer of an honest one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dayfly.limits import Limits
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.testing.scripted import Asked, ScriptedBoundary, ScriptedCell, scripted_spec

Script = Callable[[Asked], Awaitable[None]]


@asynccontextmanager
async def living(script: Script | None, **limits: Any) -> AsyncIterator[tuple[Life, ScriptedCell]]:
    """A sandbox whose agent is ``script``."""
    policy = Policy(limits=Limits(**limits))
    boundary = ScriptedBoundary(script)
    life = await Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
    try:
        yield life, boundary.cell
    finally:
        await life.close()


DONE: dict[str, Any] = {
    "count": 1,
    "status": "ok",
    "error": None,
    "state_survived": True,
    "limit": None,
    "dropped": 0,
    "cpu_seconds": 0.0,
    "exit_code": None,
    "signal": None,
}
