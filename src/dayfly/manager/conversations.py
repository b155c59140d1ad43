"""The same sandbox for the same conversation, another one for anybody else.

Laws: for one key there is at most one sandbox at a time, however many ask at once. One tenant's key never finds another
tenant's sandbox. A sandbox that has ended is never handed out; whoever asks next gets a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from dayfly.errors import BoundaryUnusable, InputError
from dayfly.policy import Policy
from dayfly.sandbox import Life

__all__ = ["Conversations"]

MAX_KEY = 256
"""Characters of a tenant's or a conversation's key."""

MAX_TRIES = 3
"""Sandboxes that one call opens when each ends before it can be handed out."""

Key = tuple[str, str]


class Conversations:
    """Who has which sandbox, on one running loop. ``open_life`` opens a new one."""

    def __init__(self, open_life: Callable[[Policy, Mapping[str, str]], Awaitable[Life]]) -> None:
        self._open_life = open_life
        self._lives: dict[Key, asyncio.Task[Life]] = {}
        self._watching: dict[Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._lives)

    async def get_or_create(
        self, tenant: str, conversation: str, policy: Policy, env: Mapping[str, str] | None = None
    ) -> Life:
        """The conversation's live sandbox, or a new one. ``env`` counts only for a new one.

        Raises ``InputError`` if the live one has another policy, what opening raises, and ``BoundaryUnusable`` if each new one ends at once. A caller that is cancelled takes
        nothing from the others who wait.
        """
        key = (_key("tenant", tenant), _key("conversation", conversation))
        for _ in range(MAX_TRIES):
            opening = self._lives.get(key)
            if opening is None:
                opening = self._lives[key] = asyncio.ensure_future(self._open(key, policy, dict(env or {})))
                opening.add_done_callback(_look)
            life = await asyncio.shield(opening)
            if life.end_reason is not None:  # it ended while we waited for our turn
                self._forget(key, opening)
                continue
            if life.policy != policy:
                raise InputError(
                    f"conversation {conversation!a:.80} has a sandbox with another policy",
                    remedy="use another conversation key, or close that sandbox first",
                )
            return life
        raise BoundaryUnusable(f"{MAX_TRIES} sandboxes in a row ended at once", remedy="run: dayfly doctor")

    def find(self, tenant: str, conversation: str) -> Life | None:
        """The conversation's live sandbox, if there is one."""
        opening = self._lives.get((tenant, conversation))
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        life = opening.result()
        return life if life.end_reason is None else None

    async def _open(self, key: Key, policy: Policy, env: Mapping[str, str]) -> Life:
        opening = asyncio.current_task()
        try:
            life = await self._open_life(policy, env)
        except BaseException:
            self._forget(key, opening)
            raise
        self._watching[key] = asyncio.ensure_future(self._watch(key, opening, life))
        return life

    async def _watch(self, key: Key, opening: asyncio.Task[Life] | None, life: Life) -> None:
        await life.ended()
        self._forget(key, opening)

    def _forget(self, key: Key, opening: asyncio.Task[Life] | None) -> None:
        if self._lives.get(key) is opening:
            del self._lives[key]
            self._watching.pop(key, None)


def _look(opening: asyncio.Task[Life]) -> None:
    """Whoever waits hears of a failure; where nobody does any more, it is no news for a log."""
    if not opening.cancelled():
        opening.exception()


def _key(what: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_KEY or not value.isprintable():
        raise InputError(f"a {what} is 1 to {MAX_KEY} printable characters, not {value!a:.80}")
    return value
