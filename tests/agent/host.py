"""A small synchronous host's end of the stream, for driving one agent from a test."""

from __future__ import annotations

import os
import select
import time
from typing import Any

from dayfly.wire.connection import PROTOCOL, Connection
from dayfly.wire.messages import HOST, Cancel, Data, Eof, Event, Fail, Finish, Hello, Message, Welcome

PATIENCE = 30.0
"""Seconds that anything may take before a test fails: far above what is measured, since the machine is shared."""

CHUNK = 256 * 1024


class Failed(AssertionError):
    """The agent answered with ``Fail``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Call:
    """One open channel and all that came on it."""

    def __init__(self, host: Host, number: int) -> None:
        self.host = host
        self.number = number
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.streams: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.value: dict[str, Any] | None = None
        self.failure: Failed | None = None
        self.consuming = True  # False: keep the window shut after it filled
        self.raised = False
        self.received = 0

    @property
    def done(self) -> bool:
        return self.value is not None or self.failure is not None

    @property
    def stdout(self) -> bytes:
        return bytes(self.streams.get(1, b""))

    @property
    def stderr(self) -> bytes:
        return bytes(self.streams.get(2, b""))

    def result(self) -> dict[str, Any]:
        """What the agent finished with. Raises ``Failed``."""
        self.host.until(lambda: self.done)
        if self.failure:
            raise self.failure
        assert self.value is not None
        return self.value

    def refusal(self) -> str:
        """The code of the ``Fail`` that must come."""
        self.host.until(lambda: self.done)
        assert self.failure, f"finished with {self.value}"
        return self.failure.code

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event of this name; returns the first one's fields."""
        self.host.until(lambda: self.done or any(found == name for found, _ in self.events))
        if self.failure:
            raise self.failure
        return next(fields for found, fields in self.events if found == name)

    def output(self, enough: bytes) -> bytes:
        """Wait until stdout contains ``enough``."""
        self.host.until(lambda: self.done or enough in self.stdout)
        assert enough in self.stdout, self.stdout
        return self.stdout

    def send(self, data: bytes, stream: int = 0) -> Call:
        """All of it, as the window allows."""
        view = memoryview(data)
        while view and not self.done:
            room = self.host.connection.sendable(self.number)
            if not room:
                self.host.turn()
                continue
            self.host.connection.send_data(self.number, stream, view[: min(room, CHUNK)])
            view = view[min(room, CHUNK) :]
            self.host.flush()
        return self

    def eof(self, stream: int = 0) -> Call:
        if not self.done:
            self._say(Eof(stream))
        return self

    def tell(self, name: str, **fields: Any) -> Call:
        self._say(Event(name, fields))
        return self

    def cancel(self) -> Call:
        self._say(Cancel())
        return self

    def _say(self, message: Message) -> None:
        self.host.connection.send(message, self.number)
        self.host.flush()

    def take(self, message: Message) -> None:
        if isinstance(message, Data):
            self.streams.setdefault(message.stream, bytearray()).extend(message.data)
            self.received += len(message.data)
            if self.received > CHUNK and not self.raised and self.consuming:
                self.raised = True
                self.host.connection.raise_window(self.number)
            if self.consuming:
                self.host.connection.consume(self.number, len(message.data))
        elif isinstance(message, Event):
            self.events.append((message.name, message.fields))
        elif isinstance(message, Eof):
            self.ended.add(message.stream)
        elif isinstance(message, Finish):
            self.value = message.value
        elif isinstance(message, Fail):
            self.failure = Failed(message.code, message.message)


class Host:
    """Talks to one agent over two descriptors, which it owns."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.connection = Connection(HOST)
        self.welcome: Welcome | None = None
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._calls: dict[int, Call] = {}
        self._unwritten: list[bytes | memoryview] = []
        os.set_blocking(write_fd, False)

    def hello(self, **options: Any) -> Welcome:
        fields: dict[str, Any] = {"limits": {}, "env": {}, "user": None, "prestart": [], **options}
        self.connection.send(Hello(PROTOCOL, "nonce", fields))
        self.flush()
        self.until(lambda: self.welcome is not None)
        assert self.welcome is not None
        return self.welcome

    def open(self, op: str, **params: Any) -> Call:
        number = self.connection.open(op, params)
        call = self._calls[number] = Call(self, number)
        self.flush()
        return call

    def run(self, *argv: str, **changes: Any) -> Call:
        """``process.start`` with what most tests want."""
        params: dict[str, Any] = {
            "argv": list(argv), "env": {}, "cwd": "/", "pty": None, "stdin": False, "output": 1 << 22,
            "cpu_seconds": 60, "detached": False,
        }  # fmt: skip
        return self.open("process.start", **{**params, **changes})

    def shell(self, line: str, **changes: Any) -> Call:
        return self.run("/bin/bash", "-c", line, **changes)

    def until(self, condition: Any, patience: float = PATIENCE) -> None:
        """Serve the stream until ``condition()``; raises ``TimeoutError``."""
        deadline = time.monotonic() + patience
        while not condition():
            self.turn(deadline)

    def turn(self, deadline: float | None = None) -> None:
        """Wait for the stream and serve it once."""
        left = max(0.0, (deadline or time.monotonic() + PATIENCE) - time.monotonic())
        writing = [self._write_fd] if self._unwritten or self.connection.has_output else []
        readable, writable, _ = select.select([self._read_fd], writing, [], left)
        if not readable and not writable:
            raise TimeoutError("the agent said nothing in time")
        if readable:
            data = os.read(self._read_fd, 1 << 20)
            if not data:
                raise EOFError("the agent closed the stream")
            for received in self.connection.receive(data):
                self._dispatch(received.channel, received.message)
                if isinstance(received.message, Event):
                    self.connection.consume(received.channel, received.cost)
        self.flush()

    def _dispatch(self, number: int, message: Message) -> None:
        if isinstance(message, Welcome):
            self.welcome = message
        elif number in self._calls:
            self._calls[number].take(message)

    def flush(self) -> None:
        waiting = self._unwritten
        try:
            while waiting or self.connection.has_output:
                if not waiting:
                    waiting.extend(self.connection.take_output())
                size = os.writev(self._write_fd, waiting[:512])
                while waiting and size >= len(waiting[0]):
                    size -= len(waiting.pop(0))
                if size:
                    waiting[0] = memoryview(waiting[0])[size:]
        except BlockingIOError:
            return

    def close(self) -> None:
        """The host goes away."""
        for fd in {self._read_fd, self._write_fd}:
            os.close(fd)
