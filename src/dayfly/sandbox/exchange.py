"""One channel under way, whoever opened it: what has arrived on it, and what may be sent."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from dayfly.wire import operations
from dayfly.wire.connection import Received
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.messages import Credit, Data, Eof, Event, Fail, Finish, Message
from dayfly.wire.operations import Operation

if TYPE_CHECKING:
    from dayfly.sandbox.link import Link

__all__ = ["Exchange"]

SEND_PIECE = 256 * 1024
"""Bytes per Data frame of a transfer: the knee of the measured curve (64/256/1024 KiB: 335/604/807 MB/s)."""


class Exchange:
    """The part that ``Call`` and ``Accepted`` share. One task may read, others may send."""

    def __init__(self, link: Link, number: int, operation: Operation, *, bulk: bool) -> None:
        self._link = link
        self._number = number
        self._operation = operation
        self._bulk = bulk
        self._inbox: deque[Received] = deque()
        self._owed = 0
        self._arrived = asyncio.Event()
        self._credit = asyncio.Event()
        self._abandoned = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._operation.name} on channel {self._number}>"

    @property
    def events(self) -> dict[str, dict[str, object]]:
        """The shapes of what the agent may say here, by name."""
        raise NotImplementedError

    @property
    def abandoned(self) -> bool:
        """Whether nobody will read on."""
        return self._abandoned

    async def arrival(self) -> Message:
        """The next message. It counts as dealt with, and its window is given back, when the one after it is asked for.

        Raises ``LinkLost``.
        """
        self._give_back()
        while not self._inbox:
            self._link.raise_if_lost()
            self._arrived.clear()
            await self._arrived.wait()
        received = self._inbox.popleft()
        self._owed = received.cost
        return received.message

    async def send_data(self, stream: int, data: bytes | memoryview) -> bool:
        """Send all of ``data``, waiting for the agent's window; false if the channel ended before.

        Raises ``LinkLost``.
        """
        view = memoryview(data)
        while view and self._link.is_open(self._number):
            piece = min(self._link.sendable(self._number), SEND_PIECE)
            if piece == 0:
                self._credit.clear()
                await self._credit.wait()
                self._link.raise_if_lost()
                continue
            self._link.send_data(self._number, stream, view[:piece])
            view = view[piece:]
        self._link.raise_if_lost()
        return not view

    def send_eof(self, stream: int) -> None:
        self.send(Eof(stream))

    def send_event(self, name: str, fields: dict[str, object]) -> None:
        self.send(Event(name, fields))

    def send(self, message: Message) -> None:
        """Nothing happens once the channel has ended."""
        if self._link.is_open(self._number):
            self._link.send(message, self._number)

    def leave(self) -> None:
        """Nobody reads on: what has arrived, and what still will, is dropped."""
        self._abandoned = True
        self._give_back()
        for received in self._inbox:
            self._link.consume(self._number, received.cost)
        self._inbox.clear()

    def _give_back(self) -> None:
        if self._owed:
            self._link.consume(self._number, self._owed)
            self._owed = 0

    # --- from the link ------------------------------------------------------------------------------------------------

    def deliver(self, received: Received) -> None:
        """A message for this channel. Raises ``RemoteProtocolError`` if the table does not list it."""
        message = received.message
        if isinstance(message, Credit):
            self._credit.set()
            return
        self._check(message)
        if self._abandoned:
            self._link.consume(self._number, received.cost)
            return
        self._inbox.append(received)
        self._arrived.set()

    def _check(self, message: Message) -> None:
        if isinstance(message, Event):
            self._check_event(message)
        elif isinstance(message, Finish):
            operations.check(message.value, self._operation.finish, self._operation.name, RemoteProtocolError)
            self._credit.set()
        elif isinstance(message, Fail):
            self._credit.set()
        elif isinstance(message, Data) and self._bulk:
            self._bulk = False  # once: the first bytes show that there is much to come
            self._link.raise_window(self._number)

    def _check_event(self, message: Event) -> None:
        shape = self.events.get(message.name)
        if shape is None:
            raise RemoteProtocolError(f"{self._operation.name} has no event {message.name!a:.80}")
        operations.check(message.fields, shape, message.name, RemoteProtocolError)

    def may_send(self) -> None:
        """There may be room to send."""
        self._credit.set()

    def wake(self) -> None:
        """Look again, something about the connection changed."""
        self._arrived.set()
        self._credit.set()
