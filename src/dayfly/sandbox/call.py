"""One operation under way in a sandbox: its events, its answer, and what the agent may still be sent."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from dayfly.wire import operations
from dayfly.wire.connection import Received
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.messages import Cancel, Credit, Data, Eof, Event, Fail, Finish, Message
from dayfly.wire.operations import Operation

if TYPE_CHECKING:
    from dayfly.sandbox.link import Link

__all__ = ["Call", "OperationFailed"]

SEND_PIECE = 256 * 1024
"""Bytes per Data frame of a transfer: the knee of the measured curve (64/256/1024 KiB: 335/604/807 MB/s)."""


class OperationFailed(Exception):
    """The agent answered with ``Fail``. ``code`` is its word for why; both are claims."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Call:
    """One operation under way. One task may read (``next``), others may send.

    ``next`` gives ``Data``, ``Eof`` and ``Event`` messages and finally ``None``; then ``value`` is the answer. It raises
    ``OperationFailed`` for a refusal and ``LinkLost`` when the sandbox is gone. A message counts as dealt with, and its
    window is given back, when the next one is asked for.
    """

    def __init__(self, link: Link, number: int, operation: Operation, *, bulk: bool, long: bool) -> None:
        self.value: dict[str, Any] = {}
        self.long = long
        self._link = link
        self._number = number
        self._operation = operation
        self._bulk = bulk
        self._inbox: deque[Received] = deque()
        self._owed = 0
        self._arrived = asyncio.Event()
        self._credit = asyncio.Event()
        self._over = False
        self._abandoned = False

    def __repr__(self) -> str:
        return f"<Call {self._operation.name} on channel {self._number}{' over' if self._over else ''}>"

    @property
    def over(self) -> bool:
        """Whether the agent has answered, or the sandbox is gone."""
        return self._over or not self._link.is_open(self._number)

    @property
    def abandoned(self) -> bool:
        """Whether nobody will read on."""
        return self._abandoned

    async def next(self) -> Message | None:
        self._give_back()
        while not self._inbox:
            if self._over:
                return None
            self._link.raise_if_lost()
            self._arrived.clear()
            await self._arrived.wait()
        received = self._inbox.popleft()
        self._owed = received.cost
        message = received.message
        if isinstance(message, Finish):
            self._over = True
            self.value = message.value
            return None
        if isinstance(message, Fail):
            self._over = True
            raise OperationFailed(message.code, message.message)
        return message

    async def answer(self) -> dict[str, Any]:
        """The value of ``Finish``, whatever else arrives before it is dropped."""
        while await self.next() is not None:
            pass
        return self.value

    async def send_data(self, stream: int, data: bytes | memoryview) -> bool:
        """Send all of ``data``, waiting for the agent's window; false if the agent ended the operation before.

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
        self._send(Eof(stream))

    def send_event(self, name: str, fields: dict[str, object]) -> None:
        self._send(Event(name, fields))

    def cancel(self) -> None:
        """Ask the agent to stop; it still answers. Nothing happens if it has answered already."""
        self._send(Cancel())

    def abandon(self) -> None:
        """Nobody will read on: ask the agent to stop and drop whatever still arrives. Harmless after the end."""
        self._abandoned = True
        self._give_back()
        for received in self._inbox:
            self._link.consume(self._number, received.cost)
        self._inbox.clear()
        self.cancel()

    def _send(self, message: Message) -> None:
        if self._link.is_open(self._number):
            self._link.send(message, self._number)

    def _give_back(self) -> None:
        if self._owed:
            self._link.consume(self._number, self._owed)
            self._owed = 0

    def deliver(self, received: Received) -> None:
        """From the link: a message for this call. Raises ``RemoteProtocolError`` if the table does not list it."""
        message = received.message
        if isinstance(message, Credit):
            self._credit.set()
            return
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
        if self._abandoned:
            self._link.consume(self._number, received.cost)
            return
        self._inbox.append(received)
        self._arrived.set()

    def _check_event(self, message: Event) -> None:
        shape = self._operation.to_opener.get(message.name)
        if shape is None:
            raise RemoteProtocolError(f"{self._operation.name} has no event {message.name!a:.80}")
        operations.check(message.fields, shape, message.name, RemoteProtocolError)

    def may_send(self) -> None:
        """From the link: there may be room to send."""
        self._credit.set()

    def wake(self) -> None:
        """From the link: look again, something about the connection changed."""
        self._arrived.set()
        self._credit.set()
