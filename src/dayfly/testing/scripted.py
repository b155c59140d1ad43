"""A cell without a boundary whose agent is a script in the test: honest, lying or silent, but always the real protocol.

It isolates nothing. It exists so that the host's side can be shown every move a hostile agent could make.
"""

from __future__ import annotations

import asyncio
import copy
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import CellEnd, Guarantees, ProbeReport
from dayfly.boundaries.snapshot import Snapshot
from dayfly.spec import EndReason, Image, LimitReport, SandboxSpec, Usage
from dayfly.wire.connection import AGENT, PROTOCOL, Connection, Received
from dayfly.wire.messages import Cancel, Event, Fail, Finish, Hello, Message, Open, Quiesce, Quiesced, Welcome
from dayfly.wire.operations import STDIN

__all__ = ["Asked", "MemoryStream", "ScriptedAgent", "ScriptedBoundary", "ScriptedCell", "scripted_spec"]

MEMORY = "memory"
"""The file of a snapshot."""

Script = Callable[["Asked"], Awaitable[None]]


class MemoryStream:
    """One end of a byte stream in memory; ``peer`` is the other end."""

    def __init__(self) -> None:
        self.peer: MemoryStream
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._rest = b""
        self._closed = False

    @classmethod
    def pair(cls) -> tuple[MemoryStream, MemoryStream]:
        one, other = cls(), cls()
        one.peer, other.peer = other, one
        return one, other

    async def read(self, limit: int) -> bytes:
        data = self._rest or await self._arrived.get()
        self._rest = data[limit:]
        return data[:limit]

    async def write(self, *buffers: bytes | bytearray | memoryview) -> None:
        self.write_now(*buffers)
        await asyncio.sleep(0)

    def write_now(self, *buffers: bytes | bytearray | memoryview) -> int:
        if self._closed or self.peer._closed:
            raise BrokenPipeError
        data = b"".join(buffers)
        if data:
            self.peer._arrived.put_nowait(data)
        return len(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._arrived.put_nowait(b"")
            self.peer._arrived.put_nowait(b"")


class Asked:
    """One operation that the host opened, from the agent's side."""

    def __init__(self, agent: ScriptedAgent, channel: int, op: str, params: dict[str, Any]) -> None:
        self.agent = agent
        self.channel = channel
        self.op = op
        self.params = params
        self.arrived: asyncio.Queue[Message] = asyncio.Queue()

    async def data(self, stream: int, data: bytes) -> None:
        """Send bytes, waiting for the host's window."""
        while data:
            room = self.agent.connection.sendable(self.channel)
            if not room:
                await self.agent.something_arrived()
                continue
            self.agent.connection.send_data(self.channel, stream, data[:room])
            data = data[room:]
            await self.agent.flush()

    async def send(self, message: Message) -> None:
        self.agent.connection.send(message, self.channel)
        await self.agent.flush()

    async def event(self, name: str, **fields: Any) -> None:
        await self.send(Event(name, fields))

    async def finish(self, **value: Any) -> None:
        await self.send(Finish(value))

    async def fail(self, code: str, message: str) -> None:
        await self.send(Fail(code, message))

    async def wait_for(self, kind: type[Message]) -> Message:
        """The next message of this class on the channel."""
        while not isinstance(message := await self.arrived.get(), kind):
            pass
        return message


class ScriptedAgent:
    """Speaks the protocol as the agent; ``script`` is called for every operation but ``usage``. Without one it is silent.

    ``busy`` is what it says when it is asked whether something goes on inside; ``None``: it does not
    say, until nobody wants to know.

    With ``quiets`` it falls silent when it is asked to. ``connection`` is where one left off that it is a copy of.
    """

    def __init__(
        self,
        stream: MemoryStream,
        script: Script | None,
        *,
        greets: bool = True,
        connection: Connection | None = None,
    ) -> None:
        self.connection = connection or Connection(AGENT)
        self.quiets = True
        self.busy: bool | None = True
        self.stream = stream
        self.options: dict[str, Any] = {}
        self.facts: dict[str, Any] = {"python": "3.11", "languages": ["python", "bash"], "pid": 1}
        self._script = script
        self._greets = greets
        self._asked: dict[int, Asked] = {}
        self._arrival = asyncio.Event()
        self._jobs: set[asyncio.Future[None]] = set()

    async def run(self) -> None:
        while data := await self.stream.read(1 << 20):
            for received in self.connection.receive(data):
                await self._take(received)
            self._arrival.set()
            await self.flush()

    async def _take(self, received: Received) -> None:
        message = received.message
        if isinstance(message, Hello):
            self.options = message.options
            if self._greets:
                self.connection.send(Welcome(PROTOCOL, message.nonce, self.facts))
        elif isinstance(message, Quiesce):
            if self.quiets:
                self.connection.send(Quiesced())
        elif isinstance(message, Open):
            asked = self._asked[received.channel] = Asked(self, received.channel, message.op, message.params)
            if message.op == "usage":
                await self._tell_usage(asked, self.busy)
            elif self._script is not None:
                job = asyncio.ensure_future(self._script(asked))
                self._jobs.add(job)
        elif received.channel in self._asked:
            self.connection.consume(received.channel, received.cost)
            asked = self._asked[received.channel]
            asked.arrived.put_nowait(message)
            if asked.op == "usage" and isinstance(message, Cancel) and self.busy is None:
                await self._tell_usage(asked, busy=True)

    async def _tell_usage(self, asked: Asked, busy: bool | None) -> None:
        if busy is not None:
            await asked.finish(processes=1, cpu_seconds=0.0, memory=0, busy=busy)

    async def flush(self) -> None:
        if buffers := self.connection.take_output():
            await self.stream.write(*buffers)

    async def open(self, op: str, *said: bytes, **params: Any) -> Asked:
        """Ask the host for something. What it says is in ``arrived`` of the answer. ``said`` goes with it, as the beginning of STDIN."""
        number = self.connection.open(op, params)
        asked = self._asked[number] = Asked(self, number, op, params)
        for data in said:
            self.connection.send_data(number, STDIN, data)
        await self.flush()
        return asked

    async def something_arrived(self) -> None:
        self._arrival.clear()
        await self._arrival.wait()

    def stop(self) -> None:
        for job in self._jobs:
            job.cancel()


class ScriptedCell:
    """A ``Cell`` over a ``ScriptedAgent``. ``die`` is the boundary's word that it ended by itself."""

    def __init__(
        self,
        spec: SandboxSpec,
        agent: ScriptedAgent,
        stream: MemoryStream,
        saved: dict[str, Connection],
        identity: Mapping[str, str],
    ) -> None:
        self.id = spec.id
        self.stream = stream
        self.agent = agent
        self.cpu_seconds = 0.0
        self.frozen = False
        self.behind = False
        self.kills: list[tuple[EndReason, str]] = []
        self.before_snapshot: Callable[[], Awaitable[None]] | None = None
        self._saved = saved
        self._identity = identity
        self._end: CellEnd | None = None
        self._gone = asyncio.Event()
        self._running = asyncio.ensure_future(agent.run())

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        return ()

    def die(self, reason: EndReason, detail: str = "") -> None:
        if self._end is None:
            self._end = CellEnd(reason, detail)
            self._running.cancel()
            self.agent.stop()
            self.agent.stream.close()
            self._gone.set()

    async def wait(self) -> CellEnd:
        await self._gone.wait()
        assert self._end is not None
        return self._end

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        self.kills.append((reason, detail))
        self.die(reason, detail)
        return await self.wait()

    async def close(self, grace: float) -> CellEnd:
        self.stream.close()
        return await self.kill()

    def freeze(self) -> None:
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False

    def step_behind(self, behind: bool) -> bool:
        self.behind = behind
        return True

    async def snapshot(self, directory: Path) -> Snapshot:
        """Keeps where the agent's connection stands, in this process only; ``directory`` holds a word for it."""
        if self.before_snapshot is not None:
            await self.before_snapshot()
        os.mkdir(directory)  # noqa: PTH102
        word = secrets.token_hex(8)
        self._saved[word] = copy.deepcopy(self.agent.connection)
        (directory / MEMORY).write_text(word, "ascii")
        snapshot = Snapshot(directory, self._identity)
        snapshot.save()
        return snapshot

    def usage(self) -> Usage:
        return Usage(cpu_seconds=self.cpu_seconds)

    def explain(self) -> Mapping[str, Any]:
        return {}


class ScriptedBoundary:
    """Opens ``ScriptedCell``s; the last one is ``cell``. ``conditions`` are the identity of its snapshots from now on."""

    name = "scripted"
    guarantees = Guarantees(
        own_kernel=False,
        network_cut=False,
        read_only_mounts=False,
        separate_user=False,
        dies_with_host_process=True,
        freeze=True,
        snapshot=True,
        limits={},
        trusted_for="nothing",
    )

    def __init__(self, script: Script | None = None, *, greets: bool = True) -> None:
        self.cell: ScriptedCell
        self._script = script
        self._greets = greets
        self._saved: dict[str, Connection] = {}
        self.conditions: dict[str, str] = {}

    def probe(self) -> ProbeReport:
        return ProbeReport(usable=True)

    async def open(self, spec: SandboxSpec) -> ScriptedCell:
        host, inside = MemoryStream.pair()
        return self._cell(spec, ScriptedAgent(inside, self._script, greets=self._greets), host)

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> ScriptedCell:
        snapshot.require(self.conditions)
        host, inside = MemoryStream.pair()
        connection = copy.deepcopy(self._saved[(snapshot.directory / MEMORY).read_text("ascii")])
        return self._cell(spec, ScriptedAgent(inside, self._script, connection=connection), host)

    def _cell(self, spec: SandboxSpec, agent: ScriptedAgent, host: MemoryStream) -> ScriptedCell:
        self.cell = ScriptedCell(spec, agent, host, self._saved, dict(self.conditions))
        return self.cell

    def identity(self, spec: SandboxSpec) -> Mapping[str, str]:
        return self.conditions

    def explain(self, spec: SandboxSpec) -> Mapping[str, Any]:
        return {}

    def sweep(self) -> int:
        return 0


def scripted_spec(limits: Any) -> SandboxSpec:
    """A spec that names no real files."""
    image = Image("none", "sha256:0", "amd64", Path("/nonexistent"))
    return SandboxSpec(id="0" * 32, image=image, limits=limits, agent=Path("/nonexistent"))
