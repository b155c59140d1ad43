"""The journal's oldest entries go when they are old enough, behind signed beginnings, so that the rest still verifies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from dayfly.errors import HostError
from dayfly.journal import Journal
from dayfly.manager.budget import DAY

__all__ = ["retire_daily"]


async def retire_daily(journal: Journal, days: float, now: Callable[[], float] = time.time) -> None:
    """Remove entries that are older than ``days``, now and once a day, for ever. ``now``: seconds since 1970."""
    while True:
        with suppress(HostError):  # a journal that cannot be written says so wherever something begins
            await asyncio.wrap_future(journal.retire(int((now() - days * DAY) * 1e9)))
        await asyncio.sleep(DAY)
