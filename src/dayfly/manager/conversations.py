"""The same sandbox for the same conversation, another one for anybody else.

Laws: for one key there is at most one sandbox at a time, however many ask at once. One tenant's key never finds another
tenant's sandbox. A sandbox that has ended is never handed out; whoever asks next gets a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from dayfly.errors import BoundaryUnusable, InputError
from dayfly.names import checked_name
from dayfly.policy import Policy
from dayfly.spec import EndReason

__all__ = ["Conversations"]

MAX_TRIES = 3
"""Sandboxes that one call opens when each ends before it can be handed out."""

Key = tuple[str, str]


class Holder(Protocol):
    """What is handed out: a sandbox."""

    @property
    def policy(self) -> Policy: ...
    @property
    def end_reason(self) -> EndReason | None: ...
    async def ended(self) -> object: ...


H = TypeVar("H", bound=Holder)


class Conversations(Generic[H]):
    """Who has which sandbox, on one running loop."""

    def __init__(self) -> None:
        self._holders: dict[Key, asyncio.Task[H]] = {}
        self._watching: dict[Key, asyncio.Task[None]] = {}
        self._asked: dict[Key, Policy] = {}  # what each was made from: its network may have been changed since

    def __len__(self) -> int:
        return len(self._holders)

    async def get_or_create(
        self, tenant: str, conversation: str, policy: Policy, create: Callable[[], Awaitable[H]]
    ) -> tuple[H, bool]:
        """The conversation's live sandbox, or what ``create`` makes, and whether this call made it.

        Raises ``InputError`` if the live one has another policy, what ``create`` raises, and ``BoundaryUnusable`` if
        each new one ends at once. A caller that is cancelled takes nothing from the others who wait.
        """
        key = (checked_name("a tenant's name", tenant), checked_name("a conversation's key", conversation))
        made = False
        for _ in range(MAX_TRIES):
            opening = self._holders.get(key)
            made = opening is None
            if opening is None:
                opening = self._holders[key] = asyncio.ensure_future(self._create(key, create))
                self._asked[key] = policy
                opening.add_done_callback(_look)
            holder = await asyncio.shield(opening)
            if holder.end_reason is not None:  # it ended while we waited for our turn
                self._forget(key, opening)
                continue
            if policy not in (holder.policy, self._asked.get(key)):
                raise InputError(
                    f"conversation {conversation!a:.80} has a sandbox with another policy",
                    remedy="use another conversation key, or close that sandbox first",
                )
            return holder, made
        raise BoundaryUnusable(f"{MAX_TRIES} sandboxes in a row ended at once", remedy="run: dayfly doctor")

    def find(self, tenant: str, conversation: str) -> H | None:
        """The conversation's live sandbox, if there is one."""
        opening = self._holders.get((tenant, conversation))
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        holder = opening.result()
        return holder if holder.end_reason is None else None

    def keep(self, tenant: str, conversation: str, holder: H) -> None:
        """One that was there before: paused by another process."""
        key = (tenant, conversation)
        opening = self._holders[key] = asyncio.ensure_future(_at_once(holder))
        self._watching[key] = asyncio.ensure_future(self._watch(key, opening, holder))

    async def _create(self, key: Key, create: Callable[[], Awaitable[H]]) -> H:
        opening = asyncio.current_task()
        try:
            holder = await create()
        except BaseException:
            self._forget(key, opening)
            raise
        self._watching[key] = asyncio.ensure_future(self._watch(key, opening, holder))
        return holder

    async def _watch(self, key: Key, opening: asyncio.Task[H] | None, holder: H) -> None:
        await holder.ended()
        self._forget(key, opening)

    def _forget(self, key: Key, opening: asyncio.Task[H] | None) -> None:
        if self._holders.get(key) is opening:
            del self._holders[key]
            self._watching.pop(key, None)
            self._asked.pop(key, None)


async def _at_once(holder: H) -> H:
    return holder


def _look(opening: asyncio.Task[H]) -> None:
    """Whoever waits hears of a failure; where nobody does any more, it is no news for a log."""
    if not opening.cancelled():
        opening.exception()
