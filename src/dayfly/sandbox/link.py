"""The stream of a cell as concurrent calls: one reader, one writer, and a ``Call`` per open channel."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from dayfly.boundaries.base import CellStream
from dayfly.sandbox.accepted import Accepted
from dayfly.sandbox.call import Call, OperationFailed
from dayfly.sandbox.exchange import Exchange
from dayfly.sandbox.hearing import Hearing
from dayfly.sandbox.turns import BULK, turns
from dayfly.wire import operations
from dayfly.wire.bookmark import Bookmark
from dayfly.wire.connection import HOST, PROTOCOL, Connection, Received
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.flow import MAX_CHANNELS
from dayfly.wire.messages import (
    Fail,
    Finish,
    Goodbye,
    Hello,
    Message,
    Open,
    Ping,
    Pong,
    Quiesce,
    Quiesced,
    Resume,
    Welcome,
)
from dayfly.wire.operations import Operation

__all__ = ["Link", "LinkLost"]

QUIET_TRIES = 5
"""Times that the agent is asked to fall silent while it opens channels. Each takes some milliseconds."""

LONG_CALLS = MAX_CHANNELS - 16
"""Calls of unbounded length (runs, commands, watches, ports) at once; the rest of the channels stays for short ones."""


class LinkLost(Exception):
    """The stream ended, or the agent broke the protocol, while a call was under way."""


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
        self._hearing = Hearing(asyncio.get_running_loop().time())
        self._resting = False  # the agent has fallen silent because it was asked to
        self.facts: dict[str, Any] = {}
        self._stream = stream
        self._on_lost = on_lost
        self._connection = Connection(HOST) if bookmark is None else Connection.continued(bookmark)
        self._calls: dict[int, Call] = {}
        self._accepted: dict[int, Accepted] = {}
        self.accepts: dict[str, Callable[[Accepted], None]] = {}  # what the agent may ask for, by the operation's name
        self._channels = asyncio.Semaphore(MAX_CHANNELS)
        self._long = 0
        self._output = asyncio.Event()
        self._writing = False
        self._unwritten: list[bytes | memoryview] = []  # what ``write_now`` left
        self._welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flowing = asyncio.Event()  # cleared from Quiesce to Resume
        self._resuming = False  # what the agent says now comes after its Resume, if perhaps in the same bytes
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
        """A time of the loop: when the agent last spoke (``Hearing``), or now if it is not to."""
        return asyncio.get_running_loop().time() if self._resting else self._hearing.last

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
        self._send_now()
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
        for _ in range(QUIET_TRIES):
            await self._fall_silent()
            if not self._accepted:
                return self._bookmark()
            await self._take_turn(self._say_resume)  # the agent had opened a channel before it heard of it
        self._flowing.set()
        self._break_off_accepted()
        raise OperationFailed(operations.BUSY, "connections are opened faster than they are ended")

    def _break_off_accepted(self) -> None:
        for one in list(self._accepted.values()):
            one.break_off(operations.UNREACHABLE, "the sandbox is being saved: connect again afterwards")

    async def _fall_silent(self) -> None:
        self._break_off_accepted()
        await self._none_left()  # the agent answers those too that nobody waits for any more
        await self._take_turn(lambda: self.send(Quiesce()))

    def _bookmark(self) -> Bookmark:
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
        self._resuming = True
        try:
            await self._take_turn(self._say_resume)
        finally:
            self._resuming = False
        self._flowing.set()

    def _say_resume(self) -> None:
        self._hearing.heard(asyncio.get_running_loop().time())
        self._resting = False
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
        if len(data) < BULK:
            self._send_now()
        else:
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
            while data := await self._stream.read(turns().piece):
                began = asyncio.get_running_loop().time()
                if len(data) >= BULK:
                    await turns().next()
                received = self._connection.receive(data)
                self._hearing.read(began, len(data), self._connection.unfinished)
                for one in received:
                    self._dispatch(one)
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
        if isinstance(message, Open):
            self._opened(received.channel, message)
        elif received.channel:
            self._on_channel(received)
        elif isinstance(message, Welcome):
            self._greeted(message)
        elif isinstance(message, (Quiesced, Resume)):
            self._turned()
        elif not isinstance(message, (Pong, Goodbye)):
            raise RemoteProtocolError(f"{type(message).__name__} is not expected now")

    def _on_channel(self, received: Received) -> None:
        number = received.channel
        one = self._calls.get(number) or self._accepted.get(number)
        if one is None:
            return  # answered here a moment ago, by what came just before in the same bytes
        one.deliver(received)
        if number in self._calls and isinstance(received.message, (Finish, Fail)):
            self._retire(number)

    def _opened(self, number: int, message: Open) -> None:
        """Raises ``RemoteProtocolError`` for what the agent may not ask for now."""
        operation = operations.OPERATIONS.get(message.op)
        if operation is None or operation.opener != "agent":
            raise RemoteProtocolError(f"the agent asks for {message.op!a:.80}, which is not its to ask for")
        params = operations.check(message.params, operation.params, operation.name, RemoteProtocolError)
        accepted = self._accepted[number] = Accepted(self, number, operation, params)
        if not (self._flowing.is_set() or self._resuming):
            return  # it is refused as soon as this side may speak again
        take = self.accepts.get(message.op)
        if take is None:
            accepted.fail(operations.DENIED, "this sandbox has no network")
        else:
            take(accepted)

    def answered(self, number: int) -> None:
        """From an ``Accepted``: its channel has ended."""
        del self._accepted[number]
        self._retired.set()

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

    def _send_now(self) -> None:
        """What a call begins with, and a few bytes, leave at once if the pipe takes them: the writer's turn would be 40 us later."""
        if self._writing or self._unwritten:
            self._output.set()
            return
        buffers = self._connection.take_output()
        try:
            done = self._stream.write_now(*buffers)
        except OSError:
            return  # nobody reads any more: the reader sees the end too
        self._unwritten = _after(buffers, done)
        if self._unwritten:
            self._output.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._output.wait()
                self._output.clear()
                buffers, self._unwritten = self._unwritten or self._connection.take_output(), []
                if buffers:
                    self._writing = True
                    await self._stream.write(*buffers)
                    self._writing = False
                    self._wake_senders()
                    if self._connection.has_output:
                        self._output.set()
        except OSError:
            pass  # nobody reads any more: the reader sees the end too
        except ProtocolError:
            self._lose(None)

    @property
    def _exchanges(self) -> list[Exchange]:
        return [*self._calls.values(), *self._accepted.values()]

    def _wake_senders(self) -> None:
        for one in self._exchanges:
            one.may_send()

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
        for _ in self._calls:
            self._channels.release()
        for one in self._exchanges:
            one.wake()
        self._on_lost(error)

    async def close(self) -> None:
        """Stop speaking. Calls under way end with ``LinkLost``. The stream itself is the cell's to close."""
        self._lose(None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _after(buffers: list[bytes | memoryview], done: int) -> list[bytes | memoryview]:
    """What is left of them when so many bytes are gone."""
    left = iter(buffers)
    for buffer in left:
        if done < len(buffer):
            return [memoryview(buffer)[done:], *left]
        done -= len(buffer)
    return []
