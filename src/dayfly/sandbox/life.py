"""One sandbox's life: opened over one cell, watched by the host's clock, ended once and for one reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from dayfly.boundaries.base import Boundary, Cell, CellEnd
from dayfly.errors import BoundaryUnusable, InputError
from dayfly.limits import Limits
from dayfly.network import environment_for
from dayfly.policy import Policy
from dayfly.sandbox.call import Call
from dayfly.sandbox.courtesy import Courtesy
from dayfly.sandbox.deadlines import PING_SECONDS, SILENCE_SECONDS, Deadlines, Due
from dayfly.sandbox.executions import ExecutionCalls, error_of
from dayfly.sandbox.files import FileCalls
from dayfly.sandbox.inside import FAILURES, Inside
from dayfly.sandbox.link import Link, LinkLost
from dayfly.sandbox.network import NetworkCalls
from dayfly.sandbox.ports import PortCalls
from dayfly.sandbox.processes import ProcessCalls
from dayfly.sandbox.rest import Rest
from dayfly.sandbox.snapshot import SnapshotCalls, Suspended
from dayfly.spec import EndReason, Enforcement, ExecutionError, LimitReport, SandboxSpec, Usage
from dayfly.wire import operations
from dayfly.wire.bookmark import Bookmark
from dayfly.wire.errors import ProtocolError

__all__ = ["Life"]

OPEN_SECONDS = 30.0
"""From the start of the cell to the agent's first word. It takes 0.2 s here; a machine under load may take a hundred times that."""

BUSY_SECONDS = 5.0
"""For the agent to tell whether something runs. One that does not is left running, and is asked no more."""

CLOSE_GRACE_SECONDS = 0.5
"""From end of file on the stream to SIGKILL. The agent leaves within some 10 ms."""

STARVED_SHARE = 0.5
"""A cell that used more than this share of its CPUs since the agent was last heard may have starved the agent."""

USER = {"uid": 1000, "gid": 1000, "home": "/home/user"}
"""Whom code runs as inside: never the agent's own uid."""

DATA_RESERVE = 64 * 1024 * 1024
"""Bytes of the memory limit that one process cannot have: the agent, the interpreter and tmpfs need them, and so a single
greedy process gets a MemoryError before the cell is ended."""

_IN_GOOD_ORDER = frozenset({EndReason.IDLE_TIMEOUT, EndReason.MAX_LIFETIME})
"""Ends by the clock, at which the sandbox is as good as before."""

PROCESS_RESERVE = 4
"""Processes of the limit kept for the agent and its helpers."""


class Life(ExecutionCalls, ProcessCalls, FileCalls, PortCalls, NetworkCalls, SnapshotCalls):
    """A live sandbox; implements ``dayfly.client.backend.Backend``. Made by ``open``; used on one event loop.

    ``spec`` is what its cell was opened with. ``last_act`` is done before it ends in good order: it was stopped, or its time is up. It
    bounds its own time, and it is cut short where the sandbox ends for another reason. ``unsaved``: what it could not do.
    """

    def __init__(self, cell: Cell, spec: SandboxSpec, policy: Policy, bookmark: Bookmark | None = None) -> None:
        now = asyncio.get_running_loop().time()
        self._cell = cell
        self.spec = spec
        self._cpu_before = 0.0  # of lives that this one goes on with
        self._policy = policy
        self._changing = asyncio.Lock()  # what it may reach
        self._end: CellEnd | None = None
        self._gone = asyncio.Event()
        self._deadlines = Deadlines(spec.limits, opened=now, last_call=now)
        self._silence: tuple[float, float, float] | None = None  # last heard, measured from, CPU seconds then
        self._link = Link(cell.stream, self._link_lost, bookmark)
        self._reports = (*cell.limits, *_host_reports(spec.limits))
        self._inside = Inside(self._link, spec.limits, self._reports, self)
        self._rest = Rest(cell, self._is_busy)
        self._courtesy = Courtesy(cell, spec.limits.cpus, lambda: self._rest.frozen)
        self._question: Call | None = None  # of ``Rest``, to the agent
        self._killing: asyncio.Task[CellEnd] | None = None
        self.last_act: Callable[[], Awaitable[None]] | None = None
        self._acting: asyncio.Task[None] | None = None
        self.unsaved: str | None = None
        self._watching = asyncio.ensure_future(self._watch_cell())
        self._keeper = asyncio.get_running_loop().call_soon(self._keep_time)
        self._look_at = now

    def __repr__(self) -> str:
        state = f"ended: {self._end.reason}" if self._end else "ready"
        return f"<Life {self.id} {state} {self._deadlines!r} {self._link!r}>"

    @classmethod
    async def open(
        cls, boundary: Boundary, spec: SandboxSpec, policy: Policy, *, env: Mapping[str, str], prestart: Sequence[str]
    ) -> Self:
        """Open a cell and greet its agent. Leaves nothing behind if it raises or is cancelled."""
        cell = await boundary.open(spec)
        life = cls(cell, spec, policy)
        try:
            await life._greet(spec, boundary.guarantees.separate_user, env, prestart)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(life.kill(EndReason.CRASHED, "it did not start")))
            raise
        life._rest.later(used=False)
        return life

    @classmethod
    async def restore(
        cls, boundary: Boundary, suspended: Suspended, spec: SandboxSpec, policy: Policy, *, keep_seeds: bool
    ) -> Self:
        """Go on from a snapshot, in a cell and with clocks of its own. With ``keep_seeds``, generators that code may have
        seeded go on as they were; without, it is a spare and is frozen like one. Leaves nothing behind if it raises."""
        cell = await boundary.restore(suspended.snapshot, spec)
        life = cls(cell, spec, policy, suspended.bookmark)
        if policy.network != "none":
            life.expect_network()
        try:
            await life.go_on(suspended, spec.hostname, keep_seeds=keep_seeds)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(life.kill(EndReason.CRASHED, "it did not go on")))
            raise
        if not keep_seeds:
            life._rest.later(used=False)
        return life

    async def _greet(self, spec: SandboxSpec, separate: bool, env: Mapping[str, str], prestart: Sequence[str]) -> None:
        options = {
            "limits": _rlimits(spec),
            "env": {**spec.image.environment, **env},
            "lent": dict(environment_for("none")),  # it has no network before ``set_network``
            "user": USER if separate else None,
            "prestart": list(prestart),
        }
        try:
            await asyncio.wait_for(self._link.greet(options), OPEN_SECONDS)
        except LinkLost:
            end = await self.ended()
            text = f"the sandbox ended before its agent answered: {end.reason}: {end.detail}"
            raise BoundaryUnusable(text, remedy="run: dayfly doctor") from None
        except TimeoutError:
            text = f"the agent did not answer within {OPEN_SECONDS:g} s"
            raise BoundaryUnusable(text, remedy="see what loads this machine, then run: dayfly doctor") from None

    async def warm_up(self, language: str, code: str) -> ExecutionError | None:
        """While it is nobody's: run ``code`` in the language's default kernel, which counts as unused after it, have
        loaded inside what ``adopt`` needs, and freeze it.

        Raises ``SandboxEnded`` and other public errors; it is good for nothing then.
        """
        self._rest.wake()  # it may take longer than until an unused one is frozen
        try:
            error = await self._run_silently(language, code)
            await (await self._link.open(operations.CONFIGURE, {"env": {}, "limits": {}, "hostname": None})).answer()
        except FAILURES as caught:
            raise await self._inside.error(caught) from None
        if not self._deadlines.calls:
            self._rest.now()
        return error

    async def _run_silently(self, language: str, code: str) -> ExecutionError | None:
        params = {"context": language, "language": language, "code": code, "silent": True}
        caps = {"cpu_seconds": self._inside.limits.run_cpu_seconds, "output": 0}
        return error_of((await (await self._link.open(operations.EXECUTE, {**params, **caps})).answer()).get("error"))

    async def adopt(self, policy: Policy, env: Mapping[str, str]) -> None:
        """Make an unused sandbox somebody's own: their environment, limits and clocks, from now on. It answers, or raises.

        ``policy`` differs from the one that it was opened with in nothing that the boundary keeps.
        """
        now = asyncio.get_running_loop().time()
        self._policy = policy
        self._deadlines = Deadlines(policy.limits, opened=now, last_call=now)
        own = {report.name: report for report in _host_reports(policy.limits)}
        self._reports = tuple(own.get(report.name, report) for report in self._reports)
        self._inside.adopt(policy.limits, self._reports)
        self._look_by(now)
        await self.configure(env)

    def extend(self, seconds: float) -> None:
        """Let it live for at least ``seconds`` from now. Raises ``InputError`` beyond the policy's ``longest_seconds``."""
        now = asyncio.get_running_loop().time()
        longest = max(self._policy.longest_seconds, self._policy.limits.lifetime_seconds)
        room = self._deadlines.opened + longest - now
        if not 0 < seconds <= room:
            raise InputError(
                f"this sandbox cannot live for {seconds:g} s more: the policy allows {longest:g} s in all",
                remedy=f"ask for at most {max(0.0, room):.0f} s, or open a new sandbox",
            )
        self._deadlines.end_of_life = max(self._deadlines.end_of_life, now + seconds)

    def carry_on(self, lived: float, left: float, cpu_seconds: float) -> None:
        """After a pause: its life goes on where it was, in seconds. The pause is no part of it."""
        now = asyncio.get_running_loop().time()
        self._cpu_before = cpu_seconds
        self._deadlines = Deadlines(self._policy.limits, opened=now - lived, last_call=now, end_of_life=now + left)
        self._look_by(now)

    @property
    def seconds_lived(self) -> float:
        return asyncio.get_running_loop().time() - self._deadlines.opened

    @property
    def seconds_left(self) -> float:
        """Until its absolute end, which an idle one may not reach."""
        return max(0.0, self._deadlines.end_of_life - asyncio.get_running_loop().time())

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._cell.id

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def languages(self) -> Sequence[str]:
        """Kernels that the agent says it can start."""
        return tuple(str(name)[:32] for name in self._link.facts.get("languages", ()))[:32]

    @property
    def limits(self) -> Sequence[LimitReport]:
        return self._reports

    @property
    def end_detail(self) -> str:
        """What the host saw of its end; empty while it lives."""
        return self._end.detail if self._end else ""

    @property
    def end_reason(self) -> EndReason | None:
        return self._end.reason if self._end else None

    def usage(self) -> Usage:
        now = self._cell.usage()
        if not self._cpu_before or now.cpu_seconds is None:
            return now
        return replace(now, cpu_seconds=now.cpu_seconds + self._cpu_before)

    def explain(self) -> Mapping[str, Any]:
        return self._cell.explain()

    # --- how it ends ----------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End it in good order; when this returns nothing of it is left. Idempotent."""
        if self._end is None and self._killing is None:
            self._killing = asyncio.ensure_future(self._stop())
        if self._killing is not None:
            await asyncio.shield(self._killing)
        await self.ended()

    async def _act_at_last(self) -> None:
        """Once. It goes on even if whoever waits is gone, and its failures are its own to tell."""
        act, self.last_act = self.last_act, None
        if act is not None and self._end is None:
            self._acting = asyncio.ensure_future(act())
            await asyncio.wait({self._acting})

    def _act_no_more(self) -> None:
        self.last_act = None
        if self._acting is not None:
            self._acting.cancel()

    async def _time_is_up(self, reason: EndReason, detail: str) -> CellEnd:
        if reason in _IN_GOOD_ORDER:
            await self._act_at_last()
        return await self._cell.kill(reason, detail)

    async def _stop(self) -> CellEnd:
        await self._act_at_last()
        self._end = self._end or CellEnd(EndReason.STOPPED)
        self._rest.wake()
        await self._link.close()
        return await self._cell.close(CLOSE_GRACE_SECONDS)

    async def kill(self, reason: EndReason, detail: str) -> CellEnd:
        """End it now, for this reason unless it has another one already."""
        self._act_no_more()
        if self._killing is None:
            self._killing = asyncio.ensure_future(self._cell.kill(reason, detail))
        await asyncio.shield(self._killing)
        return await self.ended()

    async def ended(self) -> CellEnd:
        await self._gone.wait()
        assert self._end is not None
        return self._end

    def _link_lost(self, error: ProtocolError | None) -> None:
        if self._killing is not None:
            return
        if error is not None:
            reason, detail = EndReason.PROTOCOL_VIOLATION, str(error)
            self._killing = asyncio.ensure_future(self._cell.kill(reason, detail))
        else:
            self._killing = asyncio.ensure_future(self._await_death())

    async def _await_death(self) -> CellEnd:
        """The stream ended by itself: the boundary knows why, if the cell is really gone."""
        try:
            return await asyncio.wait_for(self._cell.wait(), CLOSE_GRACE_SECONDS)
        except TimeoutError:
            return await self._cell.kill(EndReason.CRASHED, "the agent closed its stream")

    async def _watch_cell(self) -> None:
        end = await self._cell.wait()
        if self._end is None:
            self._end = end
        self._act_no_more()
        self._rest.end()
        self._courtesy.end()
        self._keeper.cancel()
        await self._link.close()
        if self._network is not None:
            await self._network.end()
        if self._acting is not None:  # it was cancelled, and has something to write down
            await asyncio.wait({self._acting})
        self.before_gone()
        self._gone.set()

    def before_gone(self) -> None:
        """Nothing more will happen in it; nobody has been told yet."""

    # --- time -----------------------------------------------------------------------------------------------------

    async def _is_busy(self) -> bool:
        """Whether something goes on inside by itself. Raises ``ProtocolError`` and ``LinkLost``."""
        self._question = call = await self._link.open(operations.USAGE, {})
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                return bool((await call.answer())["busy"])
        finally:
            self._drop_question()

    def _drop_question(self) -> None:
        """Whoever needs the sandbox must find it at rest at once, for a pause say, and not when the asker has heard of it."""
        question, self._question = self._question, None
        if question is not None and not question.over:
            question.abandon()

    def call_begins(self) -> None:
        self._rest.wake()
        self._courtesy.called()
        self._drop_question()
        self._deadlines.calls += 1
        if self._deadlines.calls == 1:
            now = self._deadlines.last_call = asyncio.get_running_loop().time()
            self._look_by(now + PING_SECONDS)

    def call_ends(self) -> None:
        self._deadlines.calls -= 1
        self._deadlines.last_call = asyncio.get_running_loop().time()
        if not self._deadlines.calls and self._end is None:
            self._rest.later(used=True)

    def _keep_time(self) -> None:
        now = asyncio.get_running_loop().time()
        due = self._due(now)
        if due.end is not None:
            if self._killing is None:
                self._killing = asyncio.ensure_future(self._time_is_up(due.end, due.detail))
            return
        if due.ping:
            self._ping()
        self._look_later(max(now + 0.05, due.look_again))

    def _look_by(self, when: float) -> None:
        """Look no later than then. (A look too many costs less than moving the timer with every call.)"""
        if when < self._look_at and self._end is None:
            self._keeper.cancel()
            self._look_later(when)

    def _look_later(self, when: float) -> None:
        self._look_at = when
        self._keeper = asyncio.get_running_loop().call_at(when, self._keep_time)

    def _due(self, now: float) -> Due:
        return self._deadlines.due(now, last_heard=self._link.last_heard, starved=self._starved(now))

    def _starved(self, now: float) -> bool:
        """Whether the cell used its CPUs since the agent fell silent, or left them to others; only looked at when that is
        some time ago, and somebody waits for it."""
        heard = self._link.last_heard
        if not self._deadlines.calls or now - max(heard, self._deadlines.last_call) < PING_SECONDS / 2:
            return False
        if self._courtesy.was_behind(SILENCE_SECONDS):
            return True
        used = self._cell.usage().cpu_seconds or 0.0
        if self._silence is None or self._silence[0] != heard:
            self._silence = (heard, now, used)
        _, since, before = self._silence
        return used - before > STARVED_SHARE * self._policy.limits.cpus * (now - since)

    def _ping(self) -> None:
        with suppress(ProtocolError):
            self._link.ping()


def _rlimits(spec: SandboxSpec) -> dict[str, int]:
    limits = spec.limits
    return {
        "data": max(limits.memory // 2, limits.memory - DATA_RESERVE),
        "processes": max(1, limits.processes - PROCESS_RESERVE),
        "open_files": limits.open_files,
        "file_size": limits.disk,
    }


def _host_reports(limits: Limits) -> tuple[LimitReport, ...]:
    """The limits that this layer keeps, whatever the boundary is."""
    enforced = Enforcement.ENFORCED
    return (
        LimitReport("output", limits.output, enforced, "counted on the host, the rest is dropped"),
        LimitReport("run_seconds", limits.run_seconds, enforced, "the host's monotonic clock"),
        LimitReport(
            "run_cpu_seconds",
            limits.run_cpu_seconds,
            Enforcement.WATCHED,
            "sampled by the agent inside; the host ends the sandbox at cpu_seconds",
        ),
        LimitReport("lifetime_seconds", limits.lifetime_seconds, enforced, "the host's monotonic clock"),
        LimitReport("idle_seconds", limits.idle_seconds, enforced, "the host's monotonic clock"),
    )
