"""Requests that are made twice and must be done once: idempotency keys.

Laws: for one tenant and key there is one outcome, however many ask at once. A failure is nobody's outcome: the next who
asks tries again. Another request under a key that is taken is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from dayfly.errors import InputError
from dayfly.names import checked_name

__all__ = ["Requests"]

T = TypeVar("T")

MAX_KEPT = 10_000
"""Keys that are remembered; the oldest go first."""


class Requests(Generic[T]):
    """Remembers outcomes by tenant and key, on one event loop."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, asyncio.Task[T]]] = {}

    async def once(self, tenant: str, key: str, request: object, do: Callable[[], Awaitable[T]]) -> T:
        """What ``do`` gives, now or when this request was first made; ``request`` is what is asked for, compared by value.

        Whoever is cancelled takes nothing from the others. Raises ``InputError``, and what ``do`` raises.
        """
        checked_name("an idempotency key", key)
        if (tenant, key) not in self._known:
            self._remember((tenant, key), request, do)
        known, doing = self._known[tenant, key]
        if known != request:
            raise InputError(
                f"the idempotency key {key!a:.80} was used for another request",
                remedy="use a new key for a new request",
            )
        return await asyncio.shield(doing)

    def _remember(self, name: tuple[str, str], request: object, do: Callable[[], Awaitable[T]]) -> None:
        async def work() -> T:
            return await do()

        doing = asyncio.ensure_future(work())
        doing.add_done_callback(lambda done: self._settle(name, done))
        self._known[name] = (request, doing)
        for old, (_, task) in list(self._known.items())[: max(0, len(self._known) - MAX_KEPT)]:
            if task.done():
                del self._known[old]

    def _settle(self, name: tuple[str, str], done: asyncio.Task[T]) -> None:
        if done.cancelled() or done.exception() is not None:
            known = self._known.get(name)
            if known is not None and known[1] is done:
                del self._known[name]
