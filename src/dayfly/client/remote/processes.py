"""Running commands, over HTTP: one stream of output for each, and a request for each word to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from dayfly.client.backend import ProcessSink
from dayfly.client.remote.ahead import Handing
from dayfly.client.remote.events import Events
from dayfly.client.remote.failures import BadAnswer
from dayfly.client.remote.held import Held
from dayfly.client.remote.values import Fields, read_process, read_process_result
from dayfly.errors import NoSuchProcess
from dayfly.spec import ProcessInfo, ProcessResult

__all__ = ["ProcessCalls", "RemoteProcess"]

MOST_PID = 2**31 - 1


class RemoteProcess:
    """A command under way, attached to its output. See ``dayfly.client.backend.ProcessHandle``."""

    def __init__(self, held: Held, events: Events, pid: int, sink: ProcessSink | None, handing: Handing) -> None:
        self.pid = pid
        self._held = held
        self._events = events
        self._sink = sink
        self._handing = handing
        self._kept: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._left = held.output
        self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> ProcessResult:
        try:
            while (event := await self._events.next()) is not None:
                kind = event.text("type")
                if kind in self._kept:
                    await self._take(kind, event.data("data"))
                elif kind == "end":
                    return self._result(event.part("result"))
            raise BadAnswer("a command's stream has no end")  # the events raise before: there is an end, or an error
        finally:
            await self._events.close()

    async def _take(self, stream: str, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            raise BadAnswer("the server sends more output than the policy allows")
        self._kept[stream].append(data)
        if self._sink is not None and data:
            await self._handing.over(self._sink.stdout(data) if stream == "stdout" else self._sink.stderr(data))

    def _result(self, told: Fields) -> ProcessResult:
        self._held.note_end(told)
        return read_process_result(told, b"".join(self._kept["stdout"]), b"".join(self._kept["stderr"]))

    async def wait(self) -> ProcessResult:
        """How it ended. Cancelling the wait leaves the process alone."""
        return await asyncio.shield(self._following)

    async def write_stdin(self, data: bytes) -> None:
        """Raises ``BrokenPipeError`` when the command has ended, ``SandboxEnded`` when the sandbox has."""
        if self._following.done():
            raise BrokenPipeError("the command has ended")
        try:
            await self._tell("stdin", content=data)
        except NoSuchProcess:
            raise BrokenPipeError("the command has ended") from None

    async def close_stdin(self) -> None:
        """To a command that has ended it is said in vain, as the next two."""
        await self._tell_if_there("stdin", content=b"", query={"close": True})

    async def resize(self, rows: int, columns: int) -> None:
        await self._tell_if_there("resize", body={"rows": rows, "columns": columns})

    async def send_signal(self, signal: int) -> None:
        await self._tell_if_there("signal", body={"signal": signal})

    async def _tell_if_there(self, what: str, **how: object) -> None:
        if not self._following.done():
            with suppress(NoSuchProcess):
                await self._tell(what, **how)

    async def _tell(self, what: str, **how: object) -> None:
        await self._held.ask("POST", f"/processes/{self.pid}/{what}", **how)

    async def detach(self) -> None:
        """Stop following. A detached process goes on; the server stops another one."""
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)


class ProcessCalls:
    """Starting, finding and signalling commands. Mixed into ``RemoteSandbox``."""

    _held: Held

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        pty: tuple[int, int] | None = None,
        stdin: bool = False,
        detached: bool = False,
        timeout: float | None = None,
        output: int | None = None,
        sink: ProcessSink | None = None,
    ) -> RemoteProcess:
        """See ``dayfly.client.backend.Backend.start_process``."""
        seconds = None if detached and timeout is None else self._held.seconds(timeout)
        asked = {
            "argv": list(argv),
            "env": dict(env or {}),
            "cwd": cwd,
            "pty": None if pty is None else list(pty),
            "stdin": stdin,
            "detached": detached,
            "timeout": seconds,
            "output": output,
        }
        body = {name: value for name, value in asked.items() if value is not None}
        return await self._begin("POST", "/processes", sink, seconds, body=body)

    async def connect_process(
        self, pid: int, *, output: int | None = None, sink: ProcessSink | None = None
    ) -> RemoteProcess:
        """Attach to a process that was started before. When this reader goes, it goes on."""
        return await self._begin("GET", f"/processes/{pid:d}/output", sink, None, query={"output": output})

    async def _begin(
        self, method: str, path: str, sink: ProcessSink | None, seconds: float | None, **how: object
    ) -> RemoteProcess:
        events = Events(self._held, method, path, **how)
        try:
            first = await events.next()
            if first is None or first.text("type") != "started":
                raise BadAnswer("a command's stream begins with its start")
            pid = first.whole("pid", most=MOST_PID)
        except BaseException:
            await events.close()
            raise
        return RemoteProcess(self._held, events, pid, sink, Handing(seconds))

    async def list_processes(self) -> Sequence[ProcessInfo]:
        """Commands that were started, running or ended. Claims of the sandbox."""
        return [read_process(one) for one in (await self._held.ask("GET", "/processes")).rows("processes")]

    async def signal_process(self, pid: int, signal: int) -> None:
        """Send a signal to a command's process group."""
        await self._held.ask("POST", f"/processes/{pid:d}/signal", body={"signal": signal})
