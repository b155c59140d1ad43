"""Runs of code that are under way or kept: what they said, and how to stop them.

Laws: what is kept is bounded for each tenant, and the oldest goes first. A run that nobody reads waits for nobody.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any

from dayfly.errors import BusyError, DayflyError, InputError
from dayfly.limits import MIB
from dayfly.manager import Registration
from dayfly.server.answers import json_bytes
from dayfly.server.bodies import ExecutionBody
from dayfly.server.errors import NoSuchExecution, error_body
from dayfly.server.metrics import Metrics
from dayfly.server.streams import Lines, Target
from dayfly.spec import Execution, Result

__all__ = ["Executions", "Log", "Run"]

KEPT_SECONDS = 3600.0
"""How long the events of a kept run can be read after its end."""

MOST_OF_RUN = 8 * MIB
"""Bytes of one run's events: 4 MiB of output, the default cap, and what is around it."""

MOST_UNDER_WAY = 32
"""Kept runs of one tenant that go on at a time."""

MOST_UNNAMED = 256
"""Runs of all tenants that go on although nobody waits for their whole answer any more."""

MOST_OF_TENANT = 256 * MIB
"""Bytes of the events of one tenant's kept runs that have ended: as much as those under way may have."""

MOST_RUNS = 1000
"""Kept runs of one tenant that have ended."""

_ID_BYTES = 16


class Log:
    """The events of one run, from ``first`` on, to be read while they come and after."""

    def __init__(self) -> None:
        self.first = 1
        self.size = 0
        self.over = False
        self._lines: deque[bytes] = deque()
        self._changed = asyncio.Event()

    async def write(self, event: Mapping[str, Any]) -> None:
        """Waits for nobody: who reads too late finds the oldest gone."""
        line = json_bytes({"n": self.first + len(self._lines), **event})
        self._lines.append(line)
        self.size += len(line)
        while self.size > MOST_OF_RUN and len(self._lines) > 1:
            self.drop()
        self._wake()

    def drop(self) -> None:
        """Forget the oldest event."""
        self.size -= len(self._lines.popleft())
        self.first += 1

    def close(self) -> None:
        self.over = True
        self._wake()

    async def follow(self, after: int, lines: Lines) -> None:
        """Write what comes after number ``after`` until the run is over. Raises ``InputError`` for what is forgotten."""
        number = after + 1
        while True:
            if number < self.first:
                raise InputError(f"events up to {self.first - 1} are forgotten", remedy=f"?after={self.first - 1}")
            changed = self._changed
            if number < self.first + len(self._lines):
                await lines.write_encoded(self._lines[number - self.first])
                number += 1
            elif self.over:
                return
            else:
                await changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class _Sink:
    """Makes events of what a run delivers."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def stdout(self, text: str) -> None:
        await self._target.write({"type": "stdout", "text": text})

    async def stderr(self, text: str) -> None:
        await self._target.write({"type": "stderr", "text": text})

    async def result(self, result: Result) -> None:
        await self._target.write({"type": "result", "result": result})


class Run:
    """One run of code whose events go to ``target``. Made by ``Executions``."""

    def __init__(self, registration: Registration, body: ExecutionBody, target: Target, metrics: Metrics) -> None:
        self.id = secrets.token_hex(_ID_BYTES)
        self.sandbox = registration.id
        self.tenant = registration.tenant
        self.target = target
        self.over = False
        self._interrupted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._registration = registration
        self._body: ExecutionBody | None = body
        self._metrics = metrics

    def interrupt(self) -> bool:
        """Stop it; its last event says so. Whether it was still under way."""
        if not self._interrupted.done():
            self._interrupted.set_result(None)
        return not self.over

    async def perform(self) -> None:
        """Run it, once, and write what happens."""
        await self.target.write({"type": "started", "id": self.id})
        try:
            execution = await self._execute()
        except DayflyError as error:
            self._metrics.failed()
            await self.target.write({"type": "error", **error_body(error)})
        else:
            self._metrics.ran(execution)
            told = {**vars(execution), "stdout": "", "stderr": "", "results": ()}
            await self.target.write({"type": "end", "execution": told})

    async def _execute(self) -> Execution:
        life, body, self._body = self._registration.life, self._body, None  # a kept run does not keep its code
        assert body is not None
        try:
            return await life.execute(
                body.code,
                language=body.language,
                context=body.context,
                timeout=body.timeout,
                output=body.output,
                sink=_Sink(self.target),
                interrupted=self._interrupted,
            )
        except asyncio.CancelledError:
            self._metrics.failed()
            raise


class Executions:
    """All runs of a server that have an id, on one event loop."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], Run] = {}
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._kept_tasks: set[asyncio.Task[None]] = set()
        self._unnamed: set[asyncio.Task[Execution]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    async def follow(self, registration: Registration, body: ExecutionBody, target: Target, metrics: Metrics) -> None:
        """A run that ends with its caller. It is known by its id until it is over."""
        await self._perform(self._known(Run(registration, body, target, metrics)))

    def begin(self, registration: Registration, body: ExecutionBody, log: Log, metrics: Metrics) -> None:
        """Start a run that goes on whoever reads; it is known by its id until an hour after its end. Raises ``BusyError``."""
        if sum(not log.over for _, log in self._kept(registration.tenant)) >= MOST_UNDER_WAY:
            raise BusyError(f"{MOST_UNDER_WAY} kept runs are under way", remedy="try again when one of them has ended")
        run = self._known(Run(registration, body, log, metrics))
        task = asyncio.ensure_future(self._perform(run))
        self._kept_tasks.add(task)
        task.add_done_callback(self._kept_tasks.discard)

    def _known(self, run: Run) -> Run:
        self._runs[run.sandbox, run.id] = run
        return run

    async def _perform(self, run: Run) -> None:
        try:
            await run.perform()
        finally:
            run.over = True
            self._over(run)

    def keep(self, work: Coroutine[Any, Any, Execution]) -> asyncio.Task[Execution]:
        """Let a run go on, whoever waits for it. Raises ``BusyError``."""
        if len(self._unnamed) >= MOST_UNNAMED:
            work.close()
            raise BusyError(f"{MOST_UNNAMED} runs are kept without an id", remedy="ask for NDJSON, or try again later")
        task = asyncio.ensure_future(work)
        self._unnamed.add(task)
        task.add_done_callback(self._unnamed.discard)
        return task

    def find(self, sandbox: str, execution: str) -> Run:
        """Raises ``NoSuchExecution``."""
        run = self._runs.get((sandbox, execution))
        if run is None:
            raise NoSuchExecution(
                f"no run {execution!a:.80} is under way or kept", remedy='start it with "on_disconnect": "keep"'
            )
        return run

    def _over(self, run: Run) -> None:
        if not isinstance(run.target, Log):
            self._forget(run)
            return
        run.target.close()
        timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, run)
        self._timers[run.sandbox, run.id] = timer  # it would hold what is forgotten before
        self._bound(run.tenant)

    def _forget(self, run: Run) -> None:
        self._runs.pop((run.sandbox, run.id), None)
        timer = self._timers.pop((run.sandbox, run.id), None)
        if timer is not None:
            timer.cancel()

    def _kept(self, tenant: str) -> list[tuple[Run, Log]]:
        """The oldest first."""
        return [
            (run, run.target) for run in self._runs.values() if run.tenant == tenant and isinstance(run.target, Log)
        ]

    def _bound(self, tenant: str) -> None:
        """Forget the oldest of the tenant's runs that have ended, until the rest is within the caps."""
        ended = [(run, log) for run, log in self._kept(tenant) if log.over]
        size = sum(log.size for _, log in ended)
        for number, (run, log) in enumerate(ended):
            if size <= MOST_OF_TENANT and len(ended) - number <= MOST_RUNS:
                return
            self._forget(run)
            size -= log.size
