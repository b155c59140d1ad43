"""The agent's end of the stream: bytes to messages, channels to tasks, and back-pressure.

A handler is called for each ``Open`` of its operation and returns the ``Task`` that gets the channel's messages, or
``None`` if it has already answered. Whatever goes wrong in one task becomes ``Fail`` on its channel and nothing else.
What the agent opens itself is in openings.py.
"""

from __future__ import annotations

import os

from dayfly.wire import operations
from dayfly.wire.connection import PROTOCOL, Connection
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.messages import (
    AGENT,
    CONTROL,
    Cancel,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Hello,
    Message,
    Open,
    Quiesce,
    Quiesced,
    Resume,
    Welcome,
)
from dayfly.wire.states import QUIESCED, RESUMING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dayfly.agent.loop import Loop

    Fields = Mapping[str, object]
    Callback = Callable[[], None]

SMALL_READ = 1 << 16
"""Bytes read at once while little arrives: a bigger buffer is mapped and unmapped each time, 100 us inside gVisor."""

READ_SIZE = 1 << 20
"""Bytes read from the stream at once: a whole frame."""

MAX_BUFFERS = 512
"""Buffers per writev; below IOV_MAX (1024)."""

INTERNAL = "internal"


class Refused(Exception):
    """Raised in a handler or task: the channel is answered with ``Fail(code, message)``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BadRequest(ProtocolError):
    """The host sent what the table of operations does not allow."""


class Task:
    """What happens on one channel. Every hook may be overridden; ``on_close`` comes exactly once, at the very end."""

    def on_event(self, name: str, fields: Fields) -> None:
        """An event of the opener; already checked against the table."""

    def on_data(self, stream: int, data: bytes) -> None:
        """Bytes arrived. They count against the window until ``channel.consume``."""

    def on_eof(self, stream: int) -> None:
        """No more bytes on this stream."""

    def on_cancel(self) -> None:
        """The opener lost interest; still answer with finish or fail."""

    def on_finish(self, value: Fields) -> None:
        """The host is done with what the agent opened. ``on_close`` follows."""

    def on_fail(self, code: str, message: str) -> None:
        """The host refuses what the agent opened, or failed. ``on_close`` follows."""

    def on_close(self) -> None:
        """The channel is gone: release what belongs to it."""


class Channel:
    """The agent's handle on one channel. After ``finish`` or ``fail`` every call is harmless and does nothing."""

    def __init__(self, session: Session, number: int, operation: operations.Operation) -> None:
        self.number = number
        self.operation = operation
        self.task: Task = Task()
        self.after: Callback | None = None  # called once, when the channel is gone
        self.open = True
        self._session = session
        self._when_room: Callback | None = None
        self._least = 1

    def room(self) -> int:
        """Bytes that ``data`` takes now; 0: stop reading the source and ask ``when_room``."""
        return self._session.connection.sendable(self.number) if self.open else 0

    def when_room(self, callback: Callback | None, least: int = 1) -> None:
        """Call back once, as soon as ``room`` is ``least`` or more. ``None`` takes the request back."""
        self._when_room = callback
        self._least = least
        self._session.waiting.add(self) if callback else self._session.waiting.discard(self)

    def data(self, stream: int, data: bytes | memoryview) -> None:
        """Send at most ``room()`` bytes. The buffer must not be changed afterwards."""
        if self.open and data:
            self._session.connection.send_data(self.number, stream, data)
            self._session.flush_soon()

    def eof(self, stream: int) -> None:
        self._send(Eof(stream))

    def event(self, name: str, fields: Fields) -> None:
        """Send a small fact. It needs room too: a task that sends many asks ``room()`` before."""
        self._send(Event(name, dict(fields)))

    def consume(self, size: int) -> None:
        """Done with ``size`` received bytes: the opener may send as many more."""
        if self.open:
            self._session.connection.consume(self.number, size)
            self._session.flush_soon()

    def raise_window(self) -> None:
        """Ask for a transfer's window instead of a call's."""
        if self.open:
            self._session.connection.raise_window(self.number)
            self._session.flush_soon()

    def finish(self, value: Fields) -> None:
        self._end(Finish(dict(value)))

    def fail(self, code: str, message: str) -> None:
        self._end(Fail(code, message[:2000]))

    def guarded(self, callback: Callback) -> Callback:
        """``callback`` such that what it raises fails this channel. For everything a task gives to the loop."""

        def call() -> None:
            self._session.attempt(self, callback)

        return call

    def deliver(self, message: Message) -> None:
        """To the task. Raises what the task raises, and ``BadRequest``."""
        if isinstance(message, Data):
            self.task.on_data(message.stream, message.data)
        elif isinstance(message, Event):
            shape = self._shapes.get(message.name)
            if shape is None:
                raise BadRequest(f"no event {ascii(message.name)[:80]} for {self.operation.name}")
            operations.check(message.fields, shape, message.name, BadRequest)
            self.task.on_event(message.name, message.fields)
        elif isinstance(message, Eof):
            self.task.on_eof(message.stream)
        elif isinstance(message, Cancel):
            self.task.on_cancel()

    @property
    def _shapes(self) -> dict[str, dict[str, object]]:
        """Of the events that may come."""
        return self.operation.to_acceptor

    def _end(self, message: Message) -> None:
        if not self.open:
            return
        self._session.before_answer()
        self._send(message)
        self._session.closed(self)

    def _send(self, message: Message) -> None:
        if self.open:
            self._session.send(message, self.number)


if TYPE_CHECKING:
    Handler = Callable[[Channel, dict[str, object]], "Task | None"]


class Session:
    """The connection over two descriptors, which are made non-blocking here. ``on_end`` is called when the host is gone."""

    def __init__(self, loop: Loop, read_fd: int, write_fd: int) -> None:
        self.connection = Connection(AGENT)
        self.handlers: dict[str, Handler] = {}
        self.waiting: set[Channel] = set()
        self.on_hello: Callable[[Fields], Fields] = lambda options: {}
        self.on_welcomed: Callback = lambda: None
        self.on_end: Callable[[str], None] = lambda why: None
        self.on_served: Callback = _nothing  # what came has been dealt with: there may be room for more
        self.before_answer: Callback = _nothing  # a channel of the host's is about to end; must not raise
        self._loop = loop
        self._read_fd = read_fd
        self._read_size = SMALL_READ
        self._write_fd = write_fd
        self._channels: dict[int, Channel] = {}
        self._unwritten: list[bytes | memoryview] = []
        self._held: list[tuple[Message, int]] = []  # between Quiesced and Resume; bounded by what tasks may say then
        self._flushing = False
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        loop.on_readable(read_fd, self._readable)

    @property
    def descriptors(self) -> tuple[int, int]:
        """No child may ever hold these."""
        return self._read_fd, self._write_fd

    # --- what the host sent ---------------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            data = os.read(self._read_fd, self._read_size)
        except BlockingIOError:
            return
        except OSError as error:
            self.on_end(f"cannot read: {error.strerror}")
            return
        self._read_size = READ_SIZE if len(data) >= SMALL_READ else SMALL_READ
        if data:
            self._received(data)
        else:
            self.on_end("end of the stream")

    def _received(self, data: bytes) -> None:
        try:
            for received in self.connection.receive(data):
                self._dispatch(received.channel, received.message)
                if isinstance(received.message, Event):
                    self.connection.consume(received.channel, received.cost)
        except RemoteProtocolError as error:
            self.on_end(f"protocol: {error}")
            return
        self._wake_waiting()
        self.on_served()
        self.flush()

    def _dispatch(self, number: int, message: Message) -> None:
        if number == CONTROL:
            self._control(message)
        elif isinstance(message, Open):
            self._opened(number, message)
        else:
            channel = self._channels.get(number)
            if channel is not None:
                self.attempt(channel, lambda: channel.deliver(message))

    def _control(self, message: Message) -> None:
        if isinstance(message, Hello):
            options = operations.check(message.options, operations.HELLO_OPTIONS, "options", RemoteProtocolError)
            self.send(Welcome(PROTOCOL, message.nonce, dict(self.on_hello(options))), CONTROL)
            self.flush()
            self.on_welcomed()
        elif isinstance(message, Quiesce):
            self.send(Quiesced(), CONTROL)
            self._loop.hold_timers()
        elif isinstance(message, Resume):
            self._loop.release_timers()
            held, self._held = self._held, []
            for late, number in held:
                if self.connection.is_open(number):  # the host may end what the agent opened right after its Resume
                    self.connection.send(late, number)
        elif isinstance(message, Goodbye):
            self.on_end("goodbye")

    def _opened(self, number: int, message: Open) -> None:
        operation = operations.OPERATIONS.get(message.op)
        handler = self.handlers.get(message.op)
        if operation is None or handler is None:
            channel = Channel(self, number, operations.USAGE)
            return channel.fail(operations.BAD_REQUEST, f"no such operation: {ascii(message.op)[:80]}")
        channel = self._channels[number] = Channel(self, number, operation)
        self.attempt(channel, lambda: self._begin(channel, handler, message.params))
        return None

    def _begin(self, channel: Channel, handler: Handler, params: dict[str, object]) -> None:
        operations.check(params, channel.operation.params, channel.operation.name, BadRequest)
        task = handler(channel, params)
        if task is None:
            return
        channel.task = task
        if not channel.open:
            task.on_close()

    def attempt(self, channel: Channel, callback: Callback) -> None:
        """Run a piece of a task. What it raises is the answer to its channel, never the end of the agent."""
        try:
            callback()
        except Refused as error:
            channel.fail(error.code, str(error))
        except BadRequest as error:
            channel.fail(operations.BAD_REQUEST, str(error))
        except Exception as error:
            self._loop.on_error(error)
            channel.fail(INTERNAL, f"{type(error).__name__}: {error!s:.500}")

    # --- what is sent ---------------------------------------------------------------------------------------------

    def send(self, message: Message, number: int) -> None:
        """Queue a message; between Quiesced and Resume it is held back."""
        if self.connection.state in (QUIESCED, RESUMING):
            self._held.append((message, number))
            return
        self.connection.send(message, number)
        self.flush_soon()

    def opened(self, channel: Channel) -> None:
        """A channel of the agent's own has got its number."""
        self._channels[channel.number] = channel
        self.flush_soon()

    def closed(self, channel: Channel) -> None:
        """The channel has been answered, or is of no interest any more."""
        channel.open = False
        channel.when_room(None)
        self._channels.pop(channel.number, None)
        for hook in (channel.task.on_close, channel.after):
            try:
                if hook is not None:
                    hook()
            except Exception as error:
                self._loop.on_error(error)

    def flush_soon(self) -> None:
        """Write at the end of this round: many small messages become one write."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what can be written now; the rest when the pipe takes more. What is queued is bounded by the windows."""
        self._flushing = False
        try:
            while self._unwritten or self.connection.has_output:
                if not self._unwritten:
                    self._unwritten = self.connection.take_output()
                self._written(os.writev(self._write_fd, self._unwritten[:MAX_BUFFERS]))
        except BlockingIOError:
            self._loop.on_writable(self._write_fd, self.flush)
            return
        except OSError as error:
            self._loop.not_writable(self._write_fd)
            self.on_end(f"cannot write: {error.strerror}")
            return
        self._loop.not_writable(self._write_fd)

    def _written(self, size: int) -> None:
        done = 0
        buffers = self._unwritten
        while done < len(buffers) and size >= len(buffers[done]):
            size -= len(buffers[done])
            done += 1
        if size:
            buffers[done] = memoryview(buffers[done])[size:]
        del buffers[:done]

    def _wake_waiting(self) -> None:
        for channel in [channel for channel in self.waiting if channel.room() >= channel._least]:
            callback = channel._when_room
            channel.when_room(None)
            if callback is not None:
                self.attempt(channel, callback)


def _nothing() -> None:
    pass


__all__ = ["BadRequest", "Channel", "Handler", "LocalProtocolError", "Refused", "Session", "Task"]
