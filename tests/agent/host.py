"""A small host's end of the stream: drives one agent from a test, over any boundary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dayfly.boundaries.base import Cell
from dayfly.wire.connection import LIVE, PROTOCOL, Connection
from dayfly.wire.messages import (
    HOST,
    Cancel,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Hello,
    Message,
    Open,
    Quiesce,
    Quiesced,
    Welcome,
)
from dayfly.wire.operations import STDERR, STDIN, STDOUT

PATIENCE = 60.0
"""Seconds that anything may take before a test fails: far above what is measured, since the machine is shared."""

CHUNK = 256 * 1024

USER = {"uid": 1000, "gid": 1000, "home": "/home/user"}
LIMITS = {"data": 960 << 20, "processes": 200, "open_files": 512, "file_size": 512 << 20}


class Failed(AssertionError):
    """The agent answered with ``Fail``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Call:
    """One open channel and all that came on it."""

    def __init__(self, host: Host, number: int) -> None:
        self.number = number
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.streams: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.value: dict[str, Any] | None = None
        self.failure: Failed | None = None
        self.reading = True  # False: let the window fill
        self.keep = True  # False: only count what comes
        self.received = 0
        self._host = host
        self._unread: list[int] = []

    @property
    def done(self) -> bool:
        return self.value is not None or self.failure is not None

    @property
    def stdout(self) -> bytes:
        return bytes(self.streams.get(STDOUT, b""))

    @property
    def stderr(self) -> bytes:
        return bytes(self.streams.get(STDERR, b""))

    async def result(self) -> dict[str, Any]:
        """What the agent finished with. Raises ``Failed``."""
        await self._host.until(lambda: self.done)
        if self.failure:
            raise self.failure
        assert self.value is not None
        return self.value

    async def refusal(self) -> str:
        """The code of the ``Fail`` that must come."""
        await self._host.until(lambda: self.done)
        assert self.failure, f"finished with {self.value}"
        return self.failure.code

    async def event(self, name: str, enough: Callable[[dict[str, Any]], bool] = lambda fields: True) -> dict[str, Any]:
        """Wait for an event of this name; returns the fields of the first that is ``enough``."""
        looked = 0
        found: dict[str, Any] | None = None

        def look() -> bool:
            nonlocal looked, found
            for known, fields in self.events[looked:]:
                if known == name and enough(fields):
                    found = fields
                    return True
            looked = len(self.events)
            return False

        await self._host.until(lambda: look() or self.done)
        if self.failure:
            raise self.failure
        assert found is not None, (name, self.value)
        return found

    async def output(self, enough: bytes) -> bytes:
        """Wait until stdout contains ``enough``."""
        await self._host.until(lambda: self.done or enough in self.stdout)
        assert enough in self.stdout, (self.stdout[-2000:], self.stderr[-2000:], self.value, self.failure)
        return self.stdout

    async def send(self, data: bytes, stream: int = STDIN) -> Call:
        """All of it, as the window allows, or until the channel is gone."""
        view = memoryview(data)
        while view and not self.done:
            room = min(self._host.connection.sendable(self.number), CHUNK)
            if not room:
                await self._host.turn()
                continue
            self._host.connection.send_data(self.number, stream, view[:room])
            view = view[room:]
            await self._host.flush()
        return self

    async def eof(self, stream: int = STDIN) -> Call:
        await self._say(Eof(stream))
        return self

    async def tell(self, name: str, **fields: Any) -> Call:
        await self._say(Event(name, fields))
        return self

    async def cancel(self) -> Call:
        await self._say(Cancel())
        return self

    async def read_on(self) -> None:
        """Take what was left in the window, and all that follows."""
        self.reading = True
        unread, self._unread = self._unread, []
        for size in unread:
            self._host.connection.consume(self.number, size)
        await self._host.flush()

    async def _say(self, message: Message) -> None:
        if not self.done:
            self._host.connection.send(message, self.number)
            await self._host.flush()

    def take(self, message: Message, cost: int) -> None:
        if isinstance(message, Data):
            if self.keep:
                self.streams.setdefault(message.stream, bytearray()).extend(message.data)
            self.received += len(message.data)
        elif isinstance(message, Event):
            self.events.append((message.name, message.fields))
        elif isinstance(message, Eof):
            self.ended.add(message.stream)
        elif isinstance(message, Finish):
            self.value = message.value
        elif isinstance(message, Fail):
            self.failure = Failed(message.code, message.message)
        if cost and self.reading:
            self._host.connection.consume(self.number, cost)
        elif cost:
            self._unread.append(cost)


class Taken(Call):
    """A channel that the agent opened. ``react`` is called after each message, the Open included."""

    def __init__(self, host: Host, number: int, op: str, params: dict[str, Any]) -> None:
        super().__init__(host, number)
        self.op = op
        self.params = params
        self.cancelled = False
        self.ours = False  # ended here
        self.react: Callable[[Taken], None] = lambda taken: None

    @property
    def done(self) -> bool:
        return self.ours

    @property
    def stdin(self) -> bytes:
        return bytes(self.streams.get(STDIN, b""))

    @property
    def place(self) -> tuple[str, int]:
        return self.params["host"], self.params["port"]

    def connected(self) -> None:
        self.say(Event("connected", {}))

    def answer(self, data: bytes) -> None:
        """Few enough bytes to need no waiting."""
        self._host.connection.send_data(self.number, STDOUT, data)

    def finish(self, **value: Any) -> None:
        self.ours = True
        self.say(Finish(value))

    def fail(self, code: str, message: str) -> None:
        self.ours = True
        self.say(Fail(code, message))

    def say(self, message: Message) -> None:
        """Without a flush: that comes with the next turn, or see ``Host.flush``."""
        self._host.connection.send(message, self.number)

    def take(self, message: Message, cost: int) -> None:
        super().take(message, cost)
        if isinstance(message, Cancel):
            self.cancelled = True
        self.react(self)


class Host:
    """One reader at a time: a test awaits one thing after the other."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.connection = Connection(HOST)
        self.welcome: Welcome | None = None
        self.quiesced = False
        self.taken: list[Taken] = []  # what the agent opened
        self.serve: Callable[[Taken], None] = lambda taken: None  # called for each of them
        self._calls: dict[int, Call] = {}

    async def hello(self, **options: Any) -> Welcome:
        fields: dict[str, Any] = {"limits": {}, "env": {}, "user": None, "prestart": [], **options}
        self.connection.send(Hello(PROTOCOL, "nonce", fields))
        await self.flush()
        await self.until(lambda: self.welcome is not None)
        assert self.welcome is not None
        return self.welcome

    async def open(self, op: str, **params: Any) -> Call:
        number = self.connection.open(op, params)
        call = self._calls[number] = Call(self, number)
        await self.flush()
        return call

    async def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """Open, and wait for the value. Raises ``Failed``."""
        return await (await self.open(op, **params)).result()

    async def run(self, *argv: str, **changes: Any) -> Call:
        """``process.start`` with what most tests want."""
        params: dict[str, Any] = {
            "argv": list(argv), "env": {}, "cwd": "", "pty": None, "stdin": False, "output": 1 << 22,
            "cpu_seconds": 60, "detached": False,
        }  # fmt: skip
        return await self.open("process.start", **{**params, **changes})

    async def shell(self, line: str, **changes: Any) -> Call:
        return await self.run("/bin/bash", "-c", line, **changes)

    async def out(self, line: str) -> bytes:
        """stdout of a shell line that must succeed."""
        call = await self.shell(line)
        value = await call.result()
        assert value["exit_code"] == 0, (value, call.stderr)
        return call.stdout

    async def python(self, code: str, **changes: Any) -> Call:
        return await self.run("/usr/bin/python3", "-c", code, **changes)

    async def write(
        self, path: str, data: bytes, how: str = "replace", mode: int = 0o644, parents: bool = True
    ) -> Call:
        call = await self.open("file.write", path=path, how=how, mode=mode, parents=parents)
        await call.send(data)
        return await call.eof()

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        call = await self.open("file.read", path=path, offset=offset, length=length)
        await call.result()
        return call.stdout

    async def quiesce(self) -> None:
        self.connection.send(Quiesce())
        await self.flush()
        await self.until(lambda: self.quiesced)

    async def resume(self) -> None:
        self.connection.resume()
        await self.flush()
        self.quiesced = False
        await self.until(lambda: self.connection.state == LIVE)

    async def until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Serve the stream until ``condition()``; raises ``TimeoutError``."""
        async with asyncio.timeout(patience):
            while not condition():
                await self.turn()

    async def accepted(self, enough: Callable[[Taken], bool] = lambda taken: True, op: str = "tunnel") -> Taken:
        """Wait for the agent to open a channel; returns the first that is ``enough``."""

        def found() -> list[Taken]:
            return [taken for taken in self.taken if taken.op == op and enough(taken)]

        await self.until(lambda: bool(found()))
        return found()[0]

    async def turn(self) -> None:
        """Wait for the stream and serve it once. Raises ``EOFError``."""
        data = await self.cell.stream.read(1 << 20)
        if not data:
            raise EOFError("the agent closed the stream")
        for received in self.connection.receive(data):
            self._dispatch(received.channel, received.message, received.cost)
        await self.flush()

    def _dispatch(self, number: int, message: Message, cost: int) -> None:
        if isinstance(message, Welcome):
            self.welcome = message
        elif isinstance(message, Quiesced):
            self.quiesced = True
        elif isinstance(message, Open):
            taken = self._calls[number] = Taken(self, number, message.op, message.params)
            self.taken.append(taken)
            self.serve(taken)
        elif number in self._calls:
            self._calls[number].take(message, cost)

    async def flush(self) -> None:
        while self.connection.has_output:
            await self.cell.stream.write(*self.connection.take_output())
