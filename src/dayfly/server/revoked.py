"""Requests under way end with the key that they were begun with: an open stream is as good as a key.

To the application it is as if the caller had gone, which it bears at any moment. A look a second, and none while nothing is
under way: a trivial request pays for two changes of a set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dayfly.errors import DayflyError
from dayfly.server.asgi import Message, Receive, Scope

__all__ = ["Revocable", "Revocations"]

LOOK_SECONDS = 1.0
"""From one look at the keys of what is under way to the next: rules of the network that are taken away cut within that, too."""


class Revocable:
    """``receive`` of one request, which says that the caller has gone once ``end`` was called."""

    def __init__(self, receive: Receive, key: str, gone: str) -> None:
        self.key = key
        self._receive = receive
        self._gone: Message = {"type": gone, "code": 1008}
        self._ended = False
        self._waiting: asyncio.Task[object] | None = None

    async def __call__(self) -> Message:
        if self._ended:
            return self._gone
        task = self._waiting = asyncio.current_task()
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if not self._ended or task is None or task.uncancel():  # somebody else cancels it, too
                raise
            return self._gone
        finally:
            self._waiting = None

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            if self._waiting is not None:
                self._waiting.cancel()


class Revocations:
    """Looks after the requests that are under way. ``holds``: whether the key of an id is valid now; raises ``DayflyError``."""

    def __init__(self, holds: Callable[[str], bool]) -> None:
        self._holds = holds
        self._open: set[Revocable] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watched(self, scope: Scope, receive: Receive, key: str) -> Iterator[Receive]:
        """What the application is to receive from, as long as it answers."""
        gone = "http.disconnect" if scope["type"] == "http" else "websocket.disconnect"
        one = Revocable(receive, key, gone)
        self._open.add(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            yield one
        finally:
            self._open.discard(one)

    def _look(self) -> None:
        valid = {key: self._is_valid(key) for key in {one.key for one in self._open}}
        for one in self._open:
            if not valid[one.key]:
                one.end()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOOK_SECONDS, self._look) if self._open else None

    def _is_valid(self, key: str) -> bool:
        try:
            return self._holds(key)
        except DayflyError:  # their file cannot be read for now: it was valid a second ago, and will be looked at again
            return True
