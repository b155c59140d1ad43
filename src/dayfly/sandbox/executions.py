"""Running code in kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dayfly.errors import InputError
from dayfly.sandbox.collect import Budget, ResultReader, TextReader
from dayfly.sandbox.inside import FAILURES, Inside
from dayfly.sandbox.link import LinkLost
from dayfly.sandbox.runs import Run
from dayfly.spec import EndReason, Execution, ExecutionError, Outcome, Result
from dayfly.wire import operations as ops
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.messages import Data, Message

__all__ = ["Context", "ExecutionCalls", "ExecutionSink"]

_STATUS = {
    "ok": Outcome.OK,
    "error": Outcome.ERROR,
    "interrupted": Outcome.INTERRUPTED,
    "cpu_limit": Outcome.CPU_LIMIT,
    "died": Outcome.KERNEL_DIED,
}

LIMIT_OF_END = {
    EndReason.MEMORY_LIMIT: "memory",
    EndReason.PROCESS_LIMIT: "processes",
    EndReason.DISK_LIMIT: "disk",
    EndReason.CPU_LIMIT: "cpu_seconds",
    EndReason.MAX_LIFETIME: "lifetime_seconds",
}
"""The limit behind an end of the whole sandbox."""

MAX_NAME = 128
"""Characters of a context's name."""

MAX_ERROR_CHARS = 256 * 1024
"""Characters of an error's value and of its traceback that are kept."""


class ExecutionSink(Protocol):
    async def stdout(self, text: str) -> None: ...
    async def stderr(self, text: str) -> None: ...
    async def result(self, result: Result) -> None: ...


@dataclass(frozen=True)
class Context:
    """A named kernel. What it says is the agent's claim."""

    name: str
    language: str
    busy: bool


class _Collector:
    """What one run has delivered so far."""

    def __init__(self, output: int, sink: ExecutionSink | None) -> None:
        self.budget = Budget(output)
        self.results: list[Result] = []
        self.out = TextReader()
        self.err = TextReader()
        self._records = ResultReader(output)
        self._sink = sink

    def take(self, message: Message) -> Coroutine[None, None, None] | None:
        if isinstance(message, Data):
            if message.stream == ops.STDOUT:
                text = self.out.feed(self.budget.take(message.data))
                return self._sink.stdout(text) if self._sink and text else None
            if message.stream == ops.STDERR:
                text = self.err.feed(self.budget.take(message.data))
                return self._sink.stderr(text) if self._sink and text else None
            return self._take_results(message.data)
        return None

    def _take_results(self, data: bytes) -> Coroutine[None, None, None] | None:
        if len(self.budget.take(data)) < len(data):
            return None  # beyond the cap: an honest agent does not send it
        found = self._records.feed(data)
        self.results += found
        return self._hand_results(found) if found and self._sink else None

    async def _hand_results(self, found: list[Result]) -> None:
        assert self._sink is not None
        for result in found:
            await self._sink.result(result)

    @property
    def dropped(self) -> int:
        return self.budget.dropped + self._records.dropped

    async def finish(self) -> None:
        """What stands for a character that was never finished."""
        out, err = self.out.feed(b"", final=True), self.err.feed(b"", final=True)
        if self._sink is not None and out:
            await self._sink.stdout(out)
        if self._sink is not None and err:
            await self._sink.stderr(err)


class ExecutionCalls:
    """``execute`` and the contexts. Mixed into ``Life``."""

    _inside: Inside

    async def execute(
        self,
        code: str,
        *,
        language: str = "python",
        context: str | None = None,
        timeout: float | None = None,
        output: int | None = None,
        sink: ExecutionSink | None = None,
        interrupted: asyncio.Future[None] | None = None,
    ) -> Execution:
        """See ``dayfly.client.backend.Backend.execute``. When ``interrupted`` has a result the run is stopped, and the answer says
        what there was and whether state survived; a caller who is cancelled hears nothing of that."""
        inside = self._inside
        params: dict[str, object] = {
            "context": _context_name(language, context),
            "language": _text("language", language),
            "code": _text("code", code, limit=None),
            "cpu_seconds": inside.limits.run_cpu_seconds,
            "output": inside.smaller("output", output),
        }
        seconds = inside.seconds(timeout)
        with inside.call():
            try:
                return await self._execute(params, seconds, sink, interrupted)
            except FAILURES as caught:
                raise await inside.error(caught) from None

    async def _execute(
        self,
        params: dict[str, object],
        seconds: float,
        sink: ExecutionSink | None,
        interrupted: asyncio.Future[None] | None,
    ) -> Execution:
        inside = self._inside
        loop = asyncio.get_running_loop()
        started = loop.time()
        collector = _Collector(params["output"], sink)  # type: ignore[arg-type]
        mark = inside.denials.mark()
        call = await inside.link.open(ops.EXECUTE, params, long=True)
        run = Run(call, stop="interrupt", kill=inside.kill_unconfirmed)
        run.set_deadline(seconds)
        try:
            with run.stopped_by(interrupted):
                await run.follow(collector.take)
        except RemoteProtocolError as broken:
            await inside.violated(broken)
            done = await self._ended(collector, run, loop.time() - started)
        except LinkLost:
            done = await self._ended(collector, run, loop.time() - started)
        else:
            await collector.finish()
            done = _execution(call.value, collector, run, loop.time() - started, inside)
        denied = inside.denials.since(mark)
        return replace(done, denied=denied) if denied else done

    async def _ended(self, collector: _Collector, run: Run, duration: float) -> Execution:
        end = await self._inside.life.ended()
        await collector.finish()
        return Execution(
            outcome=Outcome.TIMEOUT if run.expired else Outcome.SANDBOX_ENDED,
            stdout=collector.out.text,
            stderr=collector.err.text,
            results=tuple(collector.results),
            state_survived=False,
            limit="run_seconds" if run.expired else LIMIT_OF_END.get(end.reason),
            dropped=collector.dropped,
            duration=duration,
            end_reason=end.reason,
            limits=self._inside.reports,
        )

    async def contexts(self) -> Sequence[Context]:
        """The kernels that are there."""
        value = await self._ask(ops.CONTEXT_LIST, {})
        rows = [row for row in value["contexts"] if isinstance(row, dict)]
        return [
            Context(str(row.get("name"))[:MAX_NAME], str(row.get("language"))[:MAX_NAME], row.get("busy") is True)
            for row in rows
        ]

    async def remove_context(self, name: str) -> None:
        """End a kernel and everything it started. Its name can be used again."""
        await self._ask(ops.CONTEXT_REMOVE, {"context": _text("context", name)})

    async def _ask(self, operation: ops.Operation, params: dict[str, object]) -> dict[str, Any]:
        with self._inside.call():
            try:
                call = await self._inside.link.open(operation, params)
                return await call.answer()
            except FAILURES as caught:
                raise await self._inside.error(caught) from None


def _execution(value: dict[str, Any], collector: _Collector, run: Run, duration: float, inside: Inside) -> Execution:
    outcome = _STATUS.get(value["status"], Outcome.ERROR)
    limit = value.get("limit") if value.get("limit") in type(inside.limits).model_fields else None
    if run.expired:
        outcome, limit = Outcome.TIMEOUT, "run_seconds"
    dropped = max(0, value["dropped"]) + collector.dropped
    if dropped and limit is None:
        limit = "output"
    return Execution(
        outcome=outcome,
        stdout=collector.out.text,
        stderr=collector.err.text,
        results=tuple(collector.results),
        error=error_of(value.get("error")),
        execution_count=max(0, value["count"]),
        exit_code=value.get("exit_code"),
        signal=value.get("signal"),
        state_survived=value["state_survived"],
        limit=limit,
        dropped=dropped,
        duration=duration,
        cpu_seconds=max(0.0, float(value["cpu_seconds"])),
        limits=inside.reports,
    )


def error_of(value: Any) -> ExecutionError | None:
    """What the agent says of an error, bounded; ``None`` for none."""
    if not isinstance(value, dict):
        return None
    name, text, traceback = (str(value.get(key, ""))[:MAX_ERROR_CHARS] for key in ("name", "value", "traceback"))
    return ExecutionError(name[:MAX_NAME], text, traceback)


def _context_name(language: str, context: str | None) -> str:
    """The default context of a language is named after it."""
    return _text("language", language) if context is None else _text("context", context)


def _text(what: str, value: object, *, limit: int | None = MAX_NAME) -> str:
    if not isinstance(value, str) or (limit is not None and not 0 < len(value) <= limit):
        bound = f" of 1 to {limit} characters" if limit else ""
        raise InputError(f"{what} must be text{bound}, not {value!r:.100}")
    return value
