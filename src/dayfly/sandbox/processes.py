"""Running commands: argv in, bytes out, the exact exit code or signal."""

from __future__ import annotations

import asyncio
import posixpath
import signal as signals
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from dayfly.errors import InputError
from dayfly.sandbox.call import Call, OperationFailed
from dayfly.sandbox.collect import Budget
from dayfly.sandbox.executions import LIMIT_OF_END
from dayfly.sandbox.inside import FAILURES, Inside, checked_rows
from dayfly.sandbox.link import LinkLost
from dayfly.sandbox.runs import Run
from dayfly.spec import EndReason, Outcome, ProcessInfo, ProcessResult
from dayfly.wire import operations as ops
from dayfly.wire.errors import ProtocolError
from dayfly.wire.messages import Data, Event, Message

__all__ = ["ProcessCalls", "ProcessListener", "ProcessSink", "RunningProcess"]

HIGHEST_SIGNAL = 64


class ProcessSink(Protocol):
    async def stdout(self, data: bytes) -> None: ...
    async def stderr(self, data: bytes) -> None: ...


class ProcessListener(Protocol):
    """Hears of what concerns a command, without a say in it."""

    def given(self, data: bytes) -> None:
        """That is on its way to it as input."""
        ...

    def ended(self, pid: int, result: ProcessResult) -> None: ...
    def left(self, pid: int) -> None:
        """It goes on, and nobody here follows it any more."""
        ...


class RunningProcess:
    """A command under way, attached to its output. Made by ``ProcessCalls``; see ``dayfly.client.backend``."""

    def __init__(self, inside: Inside, call: Call, output: int, sink: ProcessSink | None) -> None:
        self.pid = 0
        self._inside = inside
        self._call = call
        self._sink = sink
        self._listener: ProcessListener | None = None
        self._budget = Budget(output)
        self._out: list[bytes] = []
        self._err: list[bytes] = []
        self._run = Run(call, stop="stop", kill=inside.kill_unconfirmed)
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun = asyncio.get_running_loop().time()
        self._mark = inside.denials.mark()
        self._following = asyncio.ensure_future(self._follow())

    async def started(self, timeout: float | None) -> None:
        """Wait until the agent says that it runs. Raises the public error if it does not."""
        if timeout is not None:
            self._run.set_deadline(timeout)
        first: list[asyncio.Future[Any]] = [self._started, self._following]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._following.done() and not self._started.done():
            await self._following

    def _take(self, message: Message) -> Coroutine[None, None, None] | None:
        if isinstance(message, Event) and message.name == "started":
            self.pid = message.fields["pid"]  # type: ignore[assignment]
            if not self._started.done():
                self._started.set_result(None)
        elif isinstance(message, Data):
            kept = self._budget.take(message.data)
            if message.stream == ops.STDERR:
                self._err.append(kept)
                return self._sink.stderr(kept) if self._sink and kept else None
            self._out.append(kept)
            return self._sink.stdout(kept) if self._sink and kept else None
        return None

    async def _follow(self) -> ProcessResult:
        with self._inside.call():
            try:
                await self._run.follow(self._take)
            except LinkLost:
                return await self._ended()
            except FAILURES as caught:
                raise await self._inside.error(caught) from None
        return self._result(self._call.value)

    def _result(self, value: dict[str, Any]) -> ProcessResult:
        exit_code, signal, limit = value.get("exit_code"), value.get("signal"), value.get("limit")
        outcome = Outcome.OK if exit_code == 0 else Outcome.ERROR
        dropped = max(0, value["dropped"]) + self._budget.dropped
        if self._run.expired:
            outcome, limit = Outcome.TIMEOUT, "run_seconds"
        elif limit == "run_cpu_seconds":
            outcome = Outcome.CPU_LIMIT
        elif limit not in type(self._inside.limits).model_fields:
            limit = "output" if dropped else None
        return self._make(outcome, exit_code=exit_code, signal=signal, limit=limit, dropped=dropped)

    async def _ended(self) -> ProcessResult:
        end = await self._inside.life.ended()
        expired = self._run.expired
        return self._make(
            Outcome.TIMEOUT if expired else Outcome.SANDBOX_ENDED,
            limit="run_seconds" if expired else LIMIT_OF_END.get(end.reason),
            dropped=self._budget.dropped,
            end_reason=end.reason,
        )

    def _make(self, outcome: Outcome, *, end_reason: EndReason | None = None, **rest: Any) -> ProcessResult:
        duration = asyncio.get_running_loop().time() - self._begun
        out, err = b"".join(self._out), b"".join(self._err)
        denied = self._inside.denials.since(self._mark)
        return ProcessResult(outcome, out, err, duration=duration, end_reason=end_reason, denied=denied, **rest)

    async def wait(self) -> ProcessResult:
        """How it ended. Cancelling the wait leaves the process alone."""
        return await asyncio.shield(self._following)

    def tell(self, listener: ProcessListener) -> None:
        """Have it told from now on."""
        self._listener = listener

        def look(done: asyncio.Task[ProcessResult]) -> None:
            if not done.cancelled() and done.exception() is None:
                listener.ended(self.pid, done.result())

        self._following.add_done_callback(look)

    async def stop(self) -> ProcessResult:
        """SIGTERM, after a grace SIGKILL, for it and all it started."""
        self._run.stop()
        return await self.wait()

    async def write_stdin(self, data: bytes) -> None:
        """Raises ``BrokenPipeError`` when the command has ended, ``SandboxEnded`` when the sandbox has."""
        if self._listener is not None:
            self._listener.given(data)
        if not await self._inside.send(self._call, data):
            raise BrokenPipeError("the command has ended")

    async def close_stdin(self) -> None:
        self._call.send_eof(ops.STDIN)

    async def resize(self, rows: int, columns: int) -> None:
        await self._tell("resize", {"rows": rows, "cols": columns})

    async def send_signal(self, signal: int) -> None:
        await self._tell("signal", {"signal": _signal(signal)})

    async def _tell(self, name: str, fields: dict[str, object]) -> None:
        """To a command that has ended it is said in vain. Raises ``SandboxEnded``, and ``BusyError`` for a flood."""
        try:
            self._inside.link.raise_if_lost()
            self._call.send_event(name, fields)
        except LinkLost as lost:
            raise await self._inside.error(lost) from None
        except ProtocolError:
            flood = OperationFailed(ops.BUSY, "the command has not taken what it was told before")
            raise await self._inside.error(flood) from None

    def give_up(self) -> None:
        """Nobody will ever know of it: it is stopped."""
        if not self._call.over:
            self._run.stop()

    async def detach(self) -> None:
        """Stop following. A process that was started detached goes on; another one is stopped by the agent.

        One that was given a timeout is still followed for it, and its output is dropped.
        """
        if self._run.has_deadline:
            self._sink = None
            return
        self._run.leave()
        self._call.abandon()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        if self._listener is not None and self._following.cancelled():
            self._listener.left(self.pid)


class ProcessCalls:
    """Starting, finding and signalling commands. Mixed into ``Life``."""

    _inside: Inside

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
    ) -> RunningProcess:
        """See ``dayfly.client.backend.Backend.start_process``."""
        inside = self._inside
        cap = inside.smaller("output", output)
        params: dict[str, object] = {
            "argv": _argv(argv),
            "env": _environment(env),
            "cwd": _argument("cwd", cwd or "."),
            "pty": None if pty is None else {"rows": int(pty[0]), "cols": int(pty[1])},
            "stdin": bool(stdin),
            "output": cap,
            "cpu_seconds": inside.limits.cpu_seconds if detached else inside.limits.run_cpu_seconds,
            "detached": bool(detached),
        }
        seconds = None if detached and timeout is None else inside.seconds(timeout)
        return await self._begin(ops.PROCESS_START, params, cap, sink, seconds)

    async def connect_process(
        self, pid: int, *, output: int | None = None, sink: ProcessSink | None = None
    ) -> RunningProcess:
        """Attach to a process that was started before."""
        cap = self._inside.smaller("output", output)
        return await self._begin(ops.PROCESS_CONNECT, {"pid": _pid(pid), "output": cap}, cap, sink, None)

    async def _begin(
        self,
        operation: ops.Operation,
        params: dict[str, object],
        cap: int,
        sink: ProcessSink | None,
        seconds: float | None,
    ) -> RunningProcess:
        with self._inside.call():
            try:
                call = await self._inside.link.open(operation, params, long=True)
            except FAILURES as caught:
                raise await self._inside.error(caught) from None
            process = RunningProcess(self._inside, call, cap, sink)
            try:
                await process.started(seconds)
            except BaseException:
                process.give_up()
                raise
            return process

    async def list_processes(self) -> Sequence[ProcessInfo]:
        """Commands that were started, running or ended. Claims of the agent."""
        with self._inside.call():
            try:
                value = await (await self._inside.link.open(ops.PROCESS_LIST, {})).answer()
                return [_info(row) for row in checked_rows(value["processes"], ops.PROCESS, "process")]
            except FAILURES as caught:
                raise await self._inside.error(caught) from None

    async def signal_process(self, pid: int, signal: int) -> None:
        """Send a signal to a command's process group."""
        with self._inside.call():
            try:
                params: dict[str, object] = {"pid": _pid(pid), "signal": _signal(signal)}
                await (await self._inside.link.open(ops.PROCESS_SIGNAL, params)).answer()
            except FAILURES as caught:
                raise await self._inside.error(caught) from None


def _info(row: dict[str, Any]) -> ProcessInfo:
    return ProcessInfo(
        pid=row["pid"],
        argv=tuple(map(str, row["argv"])),
        cwd=posixpath.normpath(row["cwd"]),
        running=row["running"],
        pty=row["pty"],
        exit_code=row["exit_code"],
        signal=row["signal"],
    )


def _argv(argv: Sequence[str]) -> list[str]:
    if isinstance(argv, (str, bytes)) or not argv:
        raise InputError("argv must be a sequence of at least one text", remedy="a shell line is ['bash', '-c', line]")
    return [_argument("argv", item) for item in argv]


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    found = {_argument("env", name): _argument("env", value) for name, value in (env or {}).items()}
    for name in found:
        if not name or "=" in name:
            raise InputError(f"not a name of an environment variable: {name!r}")
    return found


def _argument(what: str, value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise InputError(f"{what} must be text without NUL, not {value!r:.100}")
    return value


def _pid(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"pid must be a positive number, not {value!r}")
    return value


def _signal(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= HIGHEST_SIGNAL:
        raise InputError(f"not a signal: {value!r}", remedy=f"for example {signals.SIGTERM.value} for SIGTERM")
    return int(value)
