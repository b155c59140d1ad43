"""Running code in kernels, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from dayfly.client.backend import ExecutionSink
from dayfly.client.remote.address import in_path
from dayfly.client.remote.ahead import Handing
from dayfly.client.remote.events import Events
from dayfly.client.remote.failures import BadAnswer
from dayfly.client.remote.held import Held
from dayfly.client.remote.values import Context, Fields, read_context, read_execution, read_result
from dayfly.errors import DayflyError
from dayfly.spec import Execution, Result

__all__ = ["ExecutionCalls"]

SETTLE_SECONDS = 7.0
"""For an interrupted run to end: a grace inside, and the wait for its confirmation. Then the stream is closed as it is."""


class ExecutionCalls:
    """``execute`` and the contexts. Mixed into ``RemoteSandbox``."""

    _held: Held

    async def execute(
        self,
        code: str,
        *,
        language: str = "python",
        context: str | None = None,
        timeout: float | None = None,
        output: int | None = None,
        sink: ExecutionSink | None = None,
    ) -> Execution:
        """See ``dayfly.client.backend.Backend.execute``. A caller that is gone without a word has its run interrupted too."""
        held = self._held
        seconds = held.seconds(timeout)
        asked = {"code": code, "language": language, "context": context, "timeout": seconds, "output": output}
        body = {name: value for name, value in asked.items() if value is not None}
        events = Events(held, "POST", "/executions", body=body)
        run = _Run(held, sink, Handing(seconds))
        try:
            return await run.follow(events)
        except BaseException:
            await run.interrupt(events)
            raise
        finally:
            await events.close()

    async def contexts(self) -> Sequence[Context]:
        """The kernels that are there."""
        return [read_context(one) for one in (await self._held.ask("GET", "/contexts")).rows("contexts")]

    async def remove_context(self, name: str) -> None:
        """End a kernel and everything it started."""
        await self._held.ask("DELETE", f"/contexts/{in_path(name)}")


class _Run:
    """One execution: what it has delivered, and how to stop it."""

    def __init__(self, held: Held, sink: ExecutionSink | None, handing: Handing) -> None:
        self._held = held
        self._sink = sink
        self._handing = handing
        self._id: str | None = None
        self._over = False
        self._texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._results: list[Result] = []
        self._left = held.output

    async def follow(self, events: Events) -> Execution:
        while (event := await events.next()) is not None:
            kind = event.text("type")
            if kind == "started":
                self._id = event.text("id")
            elif kind in self._texts:
                await self._take_text(kind, event.text("text"))
            elif kind == "result":
                await self._take_result(read_result(event.part("result")))
            elif kind == "end":
                self._over = True
                return self._execution(event.part("execution"))
        raise BadAnswer("a run's stream has no end")  # the events raise before: there is an end, or an error

    async def _take_text(self, stream: str, text: str) -> None:
        self._spend(len(text))
        self._texts[stream].append(text)
        if self._sink is not None and text:
            await self._handing.over(self._sink.stdout(text) if stream == "stdout" else self._sink.stderr(text))

    async def _take_result(self, result: Result) -> None:
        self._spend(sum(len(value) for value in result.data.values() if isinstance(value, (str, bytes))))
        self._results.append(result)
        if self._sink is not None:
            await self._handing.over(self._sink.result(result))

    def _spend(self, size: int) -> None:
        """A character was at least one byte inside."""
        self._left -= size
        if self._left < 0:
            raise BadAnswer("the server sends more output than the policy allows")

    def _execution(self, told: Fields) -> Execution:
        self._held.note_end(told)
        out, err = ("".join(self._texts[stream]) for stream in ("stdout", "stderr"))
        return read_execution(told, stdout=out, stderr=err, results=tuple(self._results))

    async def interrupt(self, events: Events) -> None:
        """Have it interrupted and wait for its end, so that its context is free for the next one. Bounded in time."""
        if self._over:
            return
        settling = asyncio.ensure_future(self._settle(events))
        try:
            await asyncio.wait({settling}, timeout=SETTLE_SECONDS)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _settle(self, events: Events) -> None:
        with suppress(DayflyError):  # over before, or the server is gone: the stream is closed in any case
            while self._id is None:
                first = await events.next()
                if first is None:
                    return
                self._id = first.text("id")
            await self._held.ask("POST", f"/executions/{in_path(self._id)}/interrupt")
            while await events.next() is not None:
                pass
