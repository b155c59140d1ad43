"""The stream of a cell as concurrent calls: one reader, one writer, and a ``Call`` per open channel."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dayfly.boundaries.base import CellStream
from dayfly.sandbox.turns import BULK, turns
from dayfly.wire import operations
from dayfly.wire.bookmark import Bookmark
from dayfly.wire.connection import HOST, PROTOCOL, Connection, Received
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.flow import MAX_CHANNELS
from dayfly.wire.messages import (
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Hello,
    Message,
    Ping,
    Pong,
    Quiesce,
    Quiesced,
    Resume,
    Welcome,
)
from dayfly.wire.operations import Operation

__all__ = ["Call", "Link", "LinkLost", "OperationFailed"]

READ_SIZE = 1 << 20
"""Bytes per read: a pipe buffer of the size that the boundary asks for."""

SEND_PIECE = 256 * 1024
"""Bytes per Data frame of a transfer: the knee of the measured curve (64/256/1024 KiB: 335/604/807 MB/s)."""

LONG_CALLS = MAX_CHANNELS - 16
"""Calls of unbounded length (runs, commands, watches, ports) at once; the rest of the channels stays for short ones."""


class LinkLost(Exception):
    """The stream ended, or the agent broke the protocol, while a call was under way."""


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


class Link:
    """Speaks the protocol over ``stream`` as the host. Must be made and used on one running loop.

    ``on_lost`` is called once, with an error if the agent broke the protocol and ``None`` if the stream just ended.
    """

    def __init__(
        self,
        stream: CellStream,
        on_lost: Callable[[ProtocolError | None], None],
        bookmark: Bookmark | None = None,
    ) -> None:
        self._heard = asyncio.get_running_loop().time()
        self._resting = False  # the agent has fallen silent because it was asked to
        self.facts: dict[str, Any] = {}
        self._stream = stream
        self._on_lost = on_lost
        self._connection = Connection(HOST) if bookmark is None else Connection.continued(bookmark)
        self._calls: dict[int, Call] = {}
        self._channels = asyncio.Semaphore(MAX_CHANNELS)
        self._long = 0
        self._output = asyncio.Event()
        self._welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flowing = asyncio.Event()  # cleared from Quiesce to Resume
        self._retired = asyncio.Event()  # a call has ended
        self._turn: asyncio.Future[None] | None = None  # waits for the agent's Quiesced or Resume
        if bookmark is None:
            self._flowing.set()
        self._nonce = secrets.token_hex(16)
        self._lost = False
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]

    def __repr__(self) -> str:
        return f"<Link {'lost' if self._lost else 'up'} calls={len(self._calls)} {self._connection!r}>"

    @property
    def last_heard(self) -> float:
        """A time of the loop: when the agent last spoke, or now if it is not to."""
        return asyncio.get_running_loop().time() if self._resting else self._heard

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    async def greet(self, options: Mapping[str, object]) -> None:
        """Say Hello and wait for Welcome. Raises ``LinkLost``."""
        self.send(Hello(PROTOCOL, self._nonce, dict(options)))
        await asyncio.shield(self._welcome)

    async def open(
        self, operation: Operation, params: dict[str, object], *, bulk: bool = False, long: bool = False
    ) -> Call:
        """Start an operation. Waits while all channels are in use; ``long`` ones are refused beyond ``LONG_CALLS``.

        Raises ``LinkLost``, ``OperationFailed`` (busy) and ``ProtocolError`` (parameters that do not fit in a frame).
        """
        operations.check(params, operation.params, operation.name, ProtocolError)
        self.raise_if_lost()
        if long and self._long >= LONG_CALLS:
            raise OperationFailed(operations.BUSY, f"{LONG_CALLS} runs, commands and watches are under way")
        await self._channels.acquire()
        try:
            await self._flowing.wait()
            self.raise_if_lost()
            number = self._connection.open(operation.name, params)
        except BaseException:
            self._channels.release()
            raise
        self._long += long
        call = self._calls[number] = Call(self, number, operation, bulk=bulk, long=long)
        self._output.set()
        return call

    async def quiesce(self) -> Bookmark:
        """Have the agent fall silent, with no byte under way in either direction; calls that come now wait for ``resume``.

        Raises ``OperationFailed`` (busy) while calls are under way, and ``LinkLost``.
        """
        self.raise_if_lost()
        wanted = [call for call in self._calls.values() if not call.abandoned]
        if wanted or not self._flowing.is_set():
            raise OperationFailed(operations.BUSY, f"{len(wanted) or 'other'} calls are under way")
        self._flowing.clear()
        await self._none_left()  # the agent answers those too that nobody waits for any more
        await self._take_turn(lambda: self.send(Quiesce()))
        self._resting = True
        try:
            return self._connection.bookmark()
        except LocalProtocolError as error:
            raise RemoteProtocolError(f"the agent fell silent too early: {error}") from None

    async def cease(self) -> None:
        """Ask the agent to stop whatever is under way, and wait until all of it is over. Raises ``LinkLost``."""
        for call in self._calls.values():
            call.cancel()
        await self._none_left()

    async def _none_left(self) -> None:
        while self._calls:
            self._retired.clear()
            await self._retired.wait()
            self.raise_if_lost()

    async def resume(self) -> None:
        """Go on after ``quiesce``, or on the first stream of a link that was made with a bookmark. Raises ``LinkLost``."""
        await self._take_turn(self._say_resume)
        self._flowing.set()

    def _say_resume(self) -> None:
        self._heard, self._resting = asyncio.get_running_loop().time(), False
        self._connection.resume()
        self._output.set()

    async def _take_turn(self, say: Callable[[], None]) -> None:
        self.raise_if_lost()
        self._turn = asyncio.get_running_loop().create_future()
        say()
        try:
            await self._turn
        finally:
            self._turn = None

    def ping(self) -> None:
        if not self._lost and self._flowing.is_set():
            self.send(Ping(0))

    # --- for Call -------------------------------------------------------------------------------------------------

    def is_open(self, number: int) -> bool:
        return not self._lost and self._connection.is_open(number)

    def raise_if_lost(self) -> None:
        if self._lost:
            raise LinkLost

    def sendable(self, number: int) -> int:
        return self._connection.sendable(number)

    def send(self, message: Message, number: int = 0) -> None:
        self._connection.send(message, number)
        self._output.set()

    def send_data(self, number: int, stream: int, data: memoryview) -> None:
        self._connection.send_data(number, stream, data)
        self._output.set()

    def consume(self, number: int, size: int) -> None:
        self._connection.consume(number, size)
        if self._connection.has_output:
            self._output.set()

    def raise_window(self, number: int) -> None:
        self._connection.raise_window(number)
        self._output.set()

    # --- reading and writing --------------------------------------------------------------------------------------

    async def _read(self) -> None:
        error: ProtocolError | None = None
        try:
            while data := await self._stream.read(READ_SIZE):
                self._heard = asyncio.get_running_loop().time()
                if len(data) >= BULK:
                    await turns().next()
                for received in self._connection.receive(data):
                    self._dispatch(received)
                self._wake_senders()  # acknowledgements make room too
                if self._connection.has_output:
                    self._output.set()
        except RemoteProtocolError as broken:
            error = broken
        except OSError:
            pass  # the same as the end of the stream: the boundary says why
        self._lose(error)

    def _dispatch(self, received: Received) -> None:
        message = received.message
        if received.channel:
            call = self._calls.get(received.channel)
            if call is None:
                raise RemoteProtocolError("the agent opened a channel; none are expected")
            call.deliver(received)
            if isinstance(message, (Finish, Fail)):
                self._retire(received.channel)
        elif isinstance(message, Welcome):
            self._greeted(message)
        elif isinstance(message, (Quiesced, Resume)):
            self._turned()
        elif not isinstance(message, (Pong, Goodbye)):
            raise RemoteProtocolError(f"{type(message).__name__} is not expected now")

    def _turned(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _greeted(self, message: Welcome) -> None:
        if message.nonce != self._nonce:
            raise RemoteProtocolError("the agent did not echo the nonce")
        self.facts = operations.check(message.facts, operations.WELCOME_FACTS, "facts", RemoteProtocolError)
        if not self._welcome.done():
            self._welcome.set_result(None)

    def _retire(self, number: int) -> None:
        call = self._calls.pop(number)
        self._long -= call.long
        self._channels.release()
        self._retired.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._output.wait()
                self._output.clear()
                if buffers := self._connection.take_output():
                    await self._stream.write(*buffers)
                    self._wake_senders()
        except OSError:
            pass  # nobody reads any more: the reader sees the end too
        except ProtocolError:
            self._lose(None)

    def _wake_senders(self) -> None:
        for call in self._calls.values():
            call.may_send()

    def _lose(self, error: ProtocolError | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._connection.close()
        if not self._welcome.done():
            self._welcome.set_exception(LinkLost())
            self._welcome.exception()  # seen: nobody may be waiting
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(LinkLost())
        self._flowing.set()  # whoever waits to open a channel hears of it, or for others to end
        self._retired.set()
        for call in list(self._calls.values()):
            self._channels.release()
            call.wake()
        self._on_lost(error)

    async def close(self) -> None:
        """Stop speaking. Calls under way end with ``LinkLost``. The stream itself is the cell's to close."""
        self._lose(None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
