"""A room in memory: a ``Backend`` with behaviour of its own, for what real sandboxes do only rarely or never honestly.

``execute`` understands a tiny language, one statement a line: ``say TEXT``, ``warn TEXT``, ``show TEXT``, ``keep NAME TEXT``
and ``recall NAME`` (state), ``paint`` (a picture), ``forever`` (until interrupted), ``flood N`` (N pieces of output), ``die`` (the sandbox ends).
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dayfly.errors import FileProblem, InputError, SandboxEnded, SandboxFileError
from dayfly.policy import Policy
from dayfly.spec import (
    EndReason,
    Enforcement,
    Execution,
    ExecutionError,
    FileInfo,
    FileKind,
    LimitReport,
    Outcome,
    ProcessInfo,
    ProcessResult,
    Result,
    Usage,
)

embedded_only = pytest.mark.parametrize("landlord", ["embedded"], indirect=True)
"""For a test of what a server's client does in another way, or of what only shows without one."""


class Room:
    """One live sandbox, in memory."""

    def __init__(self, policy: Policy, env: Mapping[str, str]) -> None:
        self.id = f"{id(self):032x}"
        self.policy = policy
        self.env = dict(env)
        self.languages = ("python",)
        self.limits = (LimitReport("memory", policy.limits.memory, Enforcement.ENFORCED, "by being a fake"),)
        self.end_reason: EndReason | None = None
        self.unsaved: str | None = None
        self.files: dict[str, bytes] = {}
        self.state: dict[str, str] = {}
        self.interrupted = 0
        self.signals: list[int] = []
        self.signalled = threading.Event()
        self.processes: list[FakeProcess] = []
        self.tree = b""  # what pack_tree gives, honest or not
        self.pages: list[tuple[list[str], bool]] | None = None  # what list_files gives, honest or not
        self.endless: bytes | None = None  # a piece that read_file repeats for ever
        self.began = threading.Event()  # a ``forever`` or ``sleep`` is under way
        self.said = 0  # pieces of output that were handed on
        self.closed = asyncio.Event()

    def _live(self) -> None:
        if self.end_reason is not None:
            raise SandboxEnded(self.end_reason.value)

    def usage(self) -> Usage:
        return Usage(cpu_seconds=1.5, memory=1000)

    def explain(self) -> Mapping[str, Any]:
        return {"boundary": "a fake"}

    async def execute(
        self,
        code: str,
        *,
        language: str = "python",
        context: str | None = None,
        timeout: float | None = None,
        output: int | None = None,
        sink: Any = None,
        interrupted: asyncio.Future[None] | None = None,
    ) -> Execution:
        self._live()
        if not isinstance(code, str):
            raise InputError("code must be text")
        run = _Run(self, sink)
        try:
            outcome = await asyncio.wait_for(self._unless(interrupted, run.all(code)), timeout)
        except TimeoutError:
            outcome = Outcome.TIMEOUT
        except BaseException:  # the caller is cancelled or a sink raised: stop first, then let it go on
            self.interrupted += 1
            await asyncio.sleep(0)
            raise
        return Execution(outcome, run.out, run.err, tuple(run.results), error=run.error, end_reason=self.end_reason)

    async def _unless(self, interrupted: asyncio.Future[None] | None, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        if interrupted is None:
            return await work
        running = asyncio.ensure_future(work)
        try:
            await asyncio.wait({running, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            self.interrupted += 1
            return Outcome.INTERRUPTED
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def contexts(self) -> Sequence[Any]:
        return [SimpleNamespace(name="python", language="python", busy=False)]

    async def remove_context(self, name: str) -> None:
        self.state.clear()

    async def start_process(
        self, argv: Sequence[str], *, stdin: bool = False, sink: Any = None, **_: Any
    ) -> FakeProcess:
        self._live()
        if argv[0] == "missing":
            raise InputError("no such program")
        self.processes.append(FakeProcess(self, list(argv), sink))
        return self.processes[-1]

    async def connect_process(self, pid: int, *, output: int | None = None, sink: Any = None) -> FakeProcess:
        return FakeProcess(self, ["cat"], sink)

    async def list_processes(self) -> Sequence[ProcessInfo]:
        return [ProcessInfo(7, ("cat",), "/", True, False, None, None)]

    def take_signal(self, signal: int) -> None:
        self.signals.append(signal)
        self.signalled.set()

    async def signal_process(self, pid: int, signal: int) -> None:
        self.take_signal(signal)
        for process in self.processes:
            await process.react()

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        self._live()
        while self.endless is not None:
            yield self.endless
            await asyncio.sleep(0)
        data = self._file(path)[offset:]
        data = data if length is None else data[:length]
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]

    def _file(self, path: str) -> bytes:
        if path not in self.files:
            raise SandboxFileError(FileProblem.NOT_FOUND, path)
        return self.files[path]

    async def write_file(
        self, path: str, chunks: AsyncIterator[bytes], *, how: str = "replace", mode: int = 0o644, parents: bool = True
    ) -> int:
        self._live()
        if how == "create" and path in self.files:
            raise SandboxFileError(FileProblem.EXISTS, path)
        content = b"".join([chunk async for chunk in chunks])
        self.files[path] = (self.files.get(path, b"") if how == "append" else b"") + content
        return len(content)

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return _info(path, len(self._file(path)))

    async def list_files(
        self, path: str, *, after: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[FileInfo], bool]:
        if self.pages is not None:
            names, more = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
            return [_info(name, 0) for name in names], more
        names = sorted(name for name in self.files if after is None or name > after)
        return [_info(name, len(self.files[name])) for name in names[:limit]], len(names) > limit

    async def make_directory(self, path: str, *, parents: bool = True, mode: int = 0o755) -> bool:
        return True

    async def rename(self, path: str, to: str, *, replace: bool = True) -> None:
        self.files[to] = self.files.pop(path)

    async def remove(self, path: str, *, recursive: bool = False) -> int:
        del self.files[path]
        return 1

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[tuple[str, str]]:
        yield "ready", path
        yield "created", "a"
        await self.closed.wait()

    async def pack_tree(self, path: str) -> AsyncIterator[bytes]:
        for start in range(0, len(self.tree), 700):
            yield self.tree[start : start + 700]

    async def unpack_tree(self, path: str, chunks: AsyncIterator[bytes]) -> int:
        data = b"".join([chunk async for chunk in chunks])
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = archive.getmembers()
            for member in members:
                content = archive.extractfile(member) if member.isfile() else None
                self.files[f"{path}/{member.name}"] = content.read() if content else b""
        return len(members)

    async def connect_port(self, port: int) -> FakePort:
        return FakePort()

    async def configure(self, env: Mapping[str, str]) -> None:
        self.env.update(env)

    async def close(self) -> None:
        self.end_reason = self.end_reason or EndReason.STOPPED
        self.closed.set()


class _Run:
    """One execution."""

    def __init__(self, room: Room, sink: Any) -> None:
        self.room, self.sink = room, sink
        self.out = self.err = ""
        self.results: list[Result] = []
        self.error: ExecutionError | None = None

    async def all(self, code: str) -> Outcome:
        for line in code.splitlines():
            word, _, rest = line.partition(" ")
            await getattr(self, word)(rest)
            if self.error or self.room.end_reason:
                return Outcome.ERROR if self.error else Outcome.SANDBOX_ENDED
        return Outcome.OK

    async def say(self, text: str) -> None:
        self.out += text
        self.room.said += 1
        if self.sink:
            await self.sink.stdout(text)

    async def warn(self, text: str) -> None:
        self.err += text
        if self.sink:
            await self.sink.stderr(text)

    async def show(self, text: str) -> None:
        await self._give(Result({"text/plain": text}, is_main=True))

    async def paint(self, _: str) -> None:
        await self._give(Result({"image/png": b"png", "text/plain": "<Figure>"}))

    async def _give(self, result: Result) -> None:
        self.results.append(result)
        if self.sink:
            await self.sink.result(result)

    async def keep(self, text: str) -> None:
        name, _, value = text.partition(" ")
        self.room.state[name] = value

    async def recall(self, name: str) -> None:
        if name not in self.room.state:
            self.error = ExecutionError("NameError", name, "")
        else:
            await self.say(self.room.state[name])

    async def flood(self, count: str) -> None:
        for number in range(int(count)):
            await self.say(f"{number}\n")

    async def forever(self, _: str) -> None:
        self.room.began.set()
        await self.room.closed.wait()

    async def die(self, _: str) -> None:
        self.room.end_reason = EndReason.MEMORY_LIMIT


class FakeProcess:
    """``cat`` repeats its input; ``noise N`` prints N pieces of 1 MiB; ``sleep`` waits to be killed."""

    def __init__(self, room: Room, argv: list[str], sink: Any) -> None:
        self.pid = 7
        self.room, self.argv, self.sink = room, argv, sink
        self.out: list[bytes] = []
        self.input: asyncio.Queue[bytes | None] = asyncio.Queue(4)
        self.killed = asyncio.Event()
        self.running = asyncio.ensure_future(self._live())

    async def _live(self) -> ProcessResult:
        if self.argv[0] == "sleep":
            self.room.began.set()
            await self.killed.wait()
            return ProcessResult(Outcome.ERROR, signal=9)
        if self.argv[0] == "noise":
            for _ in range(int(self.argv[1])):
                await self._print(bytes(2**20))
        else:
            while (data := await self.input.get()) is not None:
                await self._print(data)
        return ProcessResult(Outcome.OK, b"".join(self.out), exit_code=0)

    async def _print(self, data: bytes) -> None:
        self.out.append(data)
        if self.sink:
            await self.sink.stdout(data)

    async def write_stdin(self, data: bytes) -> None:
        await self.input.put(data)

    async def close_stdin(self) -> None:
        await self.input.put(None)

    async def resize(self, rows: int, columns: int) -> None:
        self.room.state["size"] = f"{rows}x{columns}"

    async def send_signal(self, signal: int) -> None:
        self.room.take_signal(signal)
        await self.react()

    async def react(self) -> None:
        """To a signal."""
        if self.argv[0] == "sleep":
            self.killed.set()
        else:
            await self.input.put(None)

    async def detach(self) -> None:
        self.running.cancel()

    async def wait(self) -> ProcessResult:
        return await asyncio.shield(self.running)

    async def stop(self) -> ProcessResult:
        await self.send_signal(15)
        return await self.wait()


class FakePort:
    def __init__(self) -> None:
        self.data = bytearray()

    async def read(self) -> bytes:
        data, self.data = bytes(self.data), bytearray()
        return data

    async def write(self, data: bytes) -> None:
        self.data += data

    def write_eof(self) -> None: ...

    async def close(self) -> None: ...


class Landlord:
    """An ``Opener`` that remembers what it made. ``slow`` waits at the door until it is cancelled."""

    def __init__(self, *, slow: bool = False) -> None:
        self.rooms: list[Room] = []
        self.slow = slow
        self.waiting = threading.Event()
        self.cancelled = 0

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> Room:
        if self.slow:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        room = Room(policy, env or {})
        self.rooms.append(room)
        return room

    async def close(self) -> None:
        for room in self.rooms:
            await room.close()


def _info(name: str, size: int) -> FileInfo:
    return FileInfo(name, f"/{name}", FileKind.FILE, size, 0o644, 0.0)
