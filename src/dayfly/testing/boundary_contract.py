"""The boundary contract as a program: every clause of ``dayfly.boundaries.base`` run against an implementation.

``CLAUSES`` are async functions that take a ``Subject`` and raise ``AssertionError``; run each as a test of its own, with
a new subject, or all of them with ``check_boundary``. The agent is a stand-in (``echo_agent``) that does as it is told.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dayfly.boundaries.base import Boundary, Cell, CellEnd
from dayfly.errors import DayflyError
from dayfly.spec import EndReason, Enforcement, SandboxSpec
from dayfly.testing.echo import Echo
from dayfly.testing.traces import Process, descendants, gone

__all__ = ["CLAUSES", "Clause", "MakeSpec", "Subject", "check_boundary"]

SOON = 5.0
"""Seconds within which a cell must be gone, whatever happened to it; the contract's own number."""

OPEN_SECONDS = 30.0
"""For one cell to answer on a machine that does much else."""

HANGING = (
    "reply('hangs')\nimport signal\nfor n in (1, 2, 3, 10, 12, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
)
"""Code inside that neither reads its stream nor ends."""

SLEEPING = "reply('sleeps')\nimport time\nwhile True: time.sleep(1000)"


class MakeSpec(Protocol):
    """A specification that can be opened, with a new id; keywords replace its fields."""

    def __call__(self, **changes: Any) -> SandboxSpec: ...


@dataclass(frozen=True)
class Subject:
    """What a maker gives to the kit.

    ``traces`` tells what cells have on the host beside processes (directories, mounts, cgroups), as names for a person;
    it is asked while a cell lives, too, and must see it. ``factory`` is ``(\"module:function\", argument)``: called in another process, it gives a subject over the
    same places, so that the kit can kill a process that holds cells.
    """

    boundary: Boundary
    make_spec: MakeSpec
    traces: Callable[[], list[str]]
    factory: tuple[str, str]


Clause = Callable[[Subject], Awaitable[None]]
Maker = Callable[[], AbstractAsyncContextManager[Subject]]


async def check_boundary(maker: Maker) -> None:
    """Run every clause, each with a subject of its own. Raises ``AssertionError`` that names the clause."""
    for clause in CLAUSES:
        async with maker() as subject:
            try:
                await clause(subject)
            except AssertionError as error:
                raise AssertionError(f"{clause.__name__}: {error}") from error


@asynccontextmanager
async def opened(subject: Subject, **changes: Any) -> AsyncIterator[tuple[Cell, Echo]]:
    """A cell whose agent has answered. Afterwards it is killed, and nothing of it may be left."""
    async with asyncio.timeout(OPEN_SECONDS):
        cell = await subject.boundary.open(subject.make_spec(**changes))
        echo = Echo(cell.stream)
        await echo.run("pass")
    processes = descendants()
    assert processes, "a living cell has no process: the kit would miss what is left of one"
    assert subject.traces(), "a living cell leaves no trace: the kit would miss what is left of one"
    try:
        yield cell, echo
    finally:
        await cell.kill()
    assert not await gone(processes, 0.0), "processes are left after kill"
    assert not subject.traces(), f"left after kill: {subject.traces()}"


async def within(seconds: float, work: Awaitable[CellEnd]) -> CellEnd:
    async with asyncio.timeout(seconds):
        return await work


# --- the stream -------------------------------------------------------------------------------------------------------


async def stream_carries_megabytes_both_ways_exactly(subject: Subject) -> None:
    data = os.urandom(8 << 20)
    async with opened(subject) as (_, echo):
        for piece in (len(data), 65_537):
            assert await echo.echo(data, piece) == data


async def write_joins_its_buffers(subject: Subject) -> None:
    buffers: list[bytes | bytearray | memoryview] = [
        b"",
        b"one",
        bytearray(b"two"),
        memoryview(b"three"),
        b"",
        *[bytes([n % 256]) * n for n in range(300)],
    ]
    async with opened(subject) as (_, echo):
        assert await echo.echo_at_once(*buffers) == b"".join(buffers)


async def read_gives_at_least_one_byte_and_at_most_the_limit(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start("os.write(1, b'x' * 1000)")
        sizes = [len(await cell.stream.read(7)) for _ in range(20)]
        assert all(1 <= size <= 7 for size in sizes), sizes


async def a_writer_that_nobody_reads_waits_without_holding_the_loop(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start(SLEEPING)
        await echo.answer()
        writing = asyncio.ensure_future(cell.stream.write(bytes(8 << 20)))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.shield(writing)
        assert not writing.done(), "8 MiB were taken by an agent that does not read"
        await cell.kill()
        try:
            await writing
        except OSError:
            return
        raise AssertionError("writing to a dead cell succeeded")


async def the_agent_sees_end_of_file_when_the_stream_is_closed(subject: Subject) -> None:
    async with opened(subject) as (cell, _):
        cell.stream.close()
        cell.stream.close()
        await within(SOON, cell.wait())


async def after_the_end_reading_gives_what_was_left_and_then_end_of_file(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start("os.write(1, b'last'); os._exit(3)")
        await within(SOON, cell.wait())
        assert await cell.stream.read(100) == b"last"
        assert await cell.stream.read(100) == b""
        assert await cell.stream.read(100) == b""


async def writing_after_the_end_raises_a_broken_pipe(subject: Subject) -> None:
    async with opened(subject) as (cell, _):
        await cell.kill()
        try:
            await cell.stream.write(b"anybody?")
        except (BrokenPipeError, ConnectionResetError):
            return
        raise AssertionError("writing to a dead cell succeeded")


async def a_cancelled_read_loses_nothing(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        reading = asyncio.ensure_future(cell.stream.read(100))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert await echo.echo(b"still here") == b"still here"


# --- the end ----------------------------------------------------------------------------------------------------------


async def close_lets_the_agent_leave_by_itself(subject: Subject) -> None:
    async with opened(subject) as (cell, _):
        assert (await within(SOON, cell.close(grace=SOON))).reason is EndReason.STOPPED
        assert (await within(SOON, cell.close(grace=0.0))).reason is EndReason.STOPPED


async def close_kills_an_agent_that_does_not_leave(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start(HANGING)
        await echo.answer()
        assert (await within(SOON, cell.close(grace=0.05))).reason is EndReason.STOPPED


async def kill_is_idempotent_and_the_first_reason_wins(subject: Subject) -> None:
    async with opened(subject) as (cell, _):
        ends = await asyncio.gather(
            cell.kill(EndReason.QUARANTINED, "first"), cell.kill(EndReason.EVICTED), cell.wait(), cell.close(1.0)
        )
        later = await cell.kill(EndReason.IDLE_TIMEOUT)
        assert {*ends, later} == {CellEnd(EndReason.QUARANTINED, "first")}, (ends, later)


async def a_cancelled_kill_can_be_finished_by_another(subject: Subject) -> None:
    async with opened(subject) as (cell, _):
        killing = asyncio.ensure_future(cell.kill(EndReason.EVICTED))
        await asyncio.sleep(0)
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        assert (await within(SOON, cell.wait())).reason is EndReason.EVICTED


async def cancelling_a_wait_does_not_end_the_cell(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        waits = [asyncio.ensure_future(cell.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        assert await echo.echo(b"alive") == b"alive"
        end = await cell.kill()
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [end, end]


async def an_agent_that_ends_by_itself_has_crashed_and_its_last_words_are_told(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start("os.write(2, b'the last\\x1b[31m words\\n'); os._exit(3)")
        end = await within(SOON, cell.wait())
        assert end.reason is EndReason.CRASHED, end
        assert "words" in end.detail
        assert end.detail.isprintable(), "control characters from inside reach the host"


async def a_flood_of_last_words_neither_blocks_nor_grows(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        await echo.start("try:\n  while True: os.write(2, b'x' * 65536)\nexcept OSError: os._exit(4)")
        end = await within(SOON, cell.wait())
        assert end.reason is EndReason.CRASHED, end
        assert len(end.detail) < 1000


async def a_boundary_that_is_killed_from_outside_is_lost(subject: Subject) -> None:
    before = descendants()
    async with opened(subject) as (cell, _):
        for pid, _started in descendants() - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert (await within(SOON, cell.wait())).reason is EndReason.BOUNDARY_LOST


async def kill_leaves_nothing_of_a_cell_with_many_processes(subject: Subject) -> None:
    async with opened(subject) as (_, echo):
        await echo.run("import time\nfor _ in range(20):\n  if os.fork() == 0:\n    while True: time.sleep(1000)")


async def a_loop_that_ends_with_an_open_cell_leaves_nothing(subject: Subject) -> None:
    left: list[frozenset[Process]] = []

    async def forget_it() -> None:
        cell = await subject.boundary.open(subject.make_spec())
        await Echo(cell.stream).run("pass")
        left.append(descendants())

    await asyncio.to_thread(lambda: asyncio.run(forget_it()))
    assert not await gone(left[0], SOON)
    assert not subject.traces(), subject.traces()


# --- opening ----------------------------------------------------------------------------------------------------------


async def what_cannot_be_opened_is_refused_and_leaves_nothing(subject: Subject) -> None:
    before = descendants()
    spec = subject.make_spec()
    for impossible in (replace(spec, agent=Path("/nonexistent/agent.pyz")), replace(spec, strict=True)):
        if impossible.strict and _all_enforced(subject):
            continue
        refusal = await _refusal(subject, impossible)
        assert refusal is not None, f"an impossible specification was opened: {impossible}"
        assert str(refusal).isprintable()
    assert descendants() <= before
    assert not subject.traces(), subject.traces()


async def _refusal(subject: Subject, spec: SandboxSpec) -> DayflyError | None:
    try:
        cell = await subject.boundary.open(spec)
    except DayflyError as error:
        return error
    await cell.kill()
    return None


def _all_enforced(subject: Subject) -> bool:
    kept = subject.boundary.guarantees.limits
    return all(how is Enforcement.ENFORCED for name, how in kept.items() if name != "cpu_seconds")


async def a_cancelled_open_leaves_nothing_at_whatever_moment(subject: Subject) -> None:
    for moment in (0.0, 0.001, 0.004, 0.01, 0.02, 0.04):
        opening = asyncio.ensure_future(subject.boundary.open(subject.make_spec()))
        with suppress(TimeoutError):
            async with asyncio.timeout(moment):
                await asyncio.shield(opening)
        processes = descendants()
        opening.cancel()
        (result,) = await asyncio.gather(opening, return_exceptions=True)
        if not isinstance(result, BaseException):
            await result.kill()
        assert not await gone(processes, 0.0), f"processes are left of an open cancelled after {moment} s"
        assert not subject.traces(), f"left of an open cancelled after {moment} s: {subject.traces()}"


async def many_cells_open_and_end_at_once(subject: Subject) -> None:
    async def one(number: int) -> bytes:
        cell = await subject.boundary.open(subject.make_spec())
        try:
            return await Echo(cell.stream).echo(f"cell {number}".encode())
        finally:
            await cell.close(grace=1.0)

    async with asyncio.timeout(OPEN_SECONDS):
        said = await asyncio.gather(*map(one, range(6)))
    assert said == [f"cell {number}".encode() for number in range(6)]
    assert not subject.traces(), subject.traces()


# --- what is said about it --------------------------------------------------------------------------------------------


async def usage_is_sane_while_it_runs_and_after(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        before = cell.usage()
        await echo.run(
            "sys.held = bytearray(b'x') * (32 << 20)\n"
            "for _ in range(20_000_000): pass"  # work, not time: on a loaded host a guest's CPU clock runs ahead
        )
        after = cell.usage()
        if before.cpu_seconds is not None and after.cpu_seconds is not None:
            assert after.cpu_seconds >= before.cpu_seconds + 0.1, (before, after)
        if before.memory is not None and after.memory is not None:
            assert 30 << 20 <= after.memory - before.memory <= 48 << 20, (before, after)
            assert after.memory_peak is None or after.memory_peak >= after.memory
        await cell.kill()
        assert cell.usage().cpu_seconds is None or cell.usage().cpu_seconds >= 0  # type: ignore[operator]


async def every_limit_is_reported_as_the_guarantees_say(subject: Subject) -> None:
    guaranteed = subject.boundary.guarantees.limits
    async with opened(subject) as (cell, _):
        reported = {limit.name: limit for limit in cell.limits}
        assert {name: limit.enforcement for name, limit in reported.items()} == dict(guaranteed)
        limits = subject.make_spec().limits
        assert all(limit.value == getattr(limits, name) for name, limit in reported.items())
        assert all(limit.how for limit in reported.values())


async def what_was_generated_can_be_explained(subject: Subject) -> None:
    spec = subject.make_spec()
    planned = subject.boundary.explain(spec)
    assert not subject.traces(), "explaining made something"
    async with opened(subject) as (cell, _):
        real = cell.explain()
    assert "command" in planned
    assert planned.keys() == real.keys()
    assert json.loads(json.dumps(real)) == real


async def nothing_of_the_hosts_environment_is_inside_or_explained(subject: Subject) -> None:
    secret = secrets.token_hex(16)
    os.environ["DAYFLY_CONTRACT_SECRET"] = secret
    try:
        async with opened(subject) as (cell, echo):
            inside = await echo.run(
                "reply(dict(os.environ)); reply(open('/proc/self/environ').read()); reply(sys.argv)"
            )
            explained = json.dumps(cell.explain())
    finally:
        del os.environ["DAYFLY_CONTRACT_SECRET"]
    assert secret not in json.dumps(inside)
    assert secret not in explained


async def the_probe_answers_in_time_and_leaves_nothing(subject: Subject) -> None:
    began = time.monotonic()
    report = await asyncio.to_thread(subject.boundary.probe)
    assert time.monotonic() - began < SOON + 1
    assert report.usable, report
    assert not subject.traces(), subject.traces()


# --- the host process -------------------------------------------------------------------------------------------------


class _Holder:
    """Another process that holds one cell."""

    def __init__(self, subject: Subject, code: str) -> None:
        factory, argument = subject.factory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dayfly.testing.hold_cell", factory, argument, code], stdout=subprocess.PIPE
        )

    async def ready(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(OPEN_SECONDS):
            line = await asyncio.to_thread(self.process.stdout.readline)
        assert line, "the process that should hold a cell ended"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@asynccontextmanager
async def _held(subject: Subject, code: str = "") -> AsyncIterator[_Holder]:
    holder = _Holder(subject, code)
    try:
        await holder.ready()
        yield holder
    finally:
        holder.kill()


async def cells_die_with_a_host_process_that_is_killed(subject: Subject) -> None:
    for code in ("", HANGING, SLEEPING):
        async with _held(subject, code) as holder:
            processes = descendants(holder.process.pid)
            assert processes
            holder.kill()
            assert not await gone(processes, SOON), f"still there after {SOON} s, agent: {code[:20]!r}"


async def sweep_clears_what_dead_processes_left_and_spares_the_living(subject: Subject) -> None:
    async with opened(subject) as (_, echo):
        async with _held(subject) as alive:
            async with _held(subject) as dead:
                processes = descendants(dead.process.pid)
                dead.kill()
                assert not await gone(processes, SOON)
            left = set(subject.traces())
            assert await asyncio.to_thread(subject.boundary.sweep) == 1
            assert set(subject.traces()) < left, "sweep said that it cleared a cell, and nothing went"
            assert descendants(alive.process.pid), "sweep ended a cell of a living process"
        assert await echo.echo(b"alive") == b"alive"
        assert await asyncio.to_thread(subject.boundary.sweep) == 1  # of the process that was alive
        assert await asyncio.to_thread(subject.boundary.sweep) == 0


async def a_forked_child_neither_holds_nor_ends_its_parents_cells(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        leaves, stays = _fork(lambda _: os._exit(_leave())), _fork(lambda orders: orders.read(1))
        os.close(leaves[1])
        assert (await asyncio.to_thread(os.waitpid, leaves[0], 0))[1] == 0
        assert await echo.echo(b"alive") == b"alive"
        try:
            assert (await within(SOON, cell.close(grace=SOON))).reason is EndReason.STOPPED
            assert not subject.traces(), "the child holds what its parent has cleared away"
        finally:
            os.close(stays[1])
            await asyncio.to_thread(os.waitpid, stays[0], 0)


def _leave() -> int:
    """What an ordinary exit of a forked interpreter does, except for flushing the parent's output twice."""
    atexit._run_exitfuncs()
    return 0


def _fork(work: Callable[[Any], object]) -> tuple[int, int]:
    """A forked child that does ``work`` with a file of orders; its pid, and the descriptor whose close ends the orders."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        with os.fdopen(read, "rb") as orders:
            work(orders)
        os._exit(0)
    os.close(read)
    return pid, write


CLAUSES: tuple[Clause, ...] = (
    stream_carries_megabytes_both_ways_exactly,
    write_joins_its_buffers,
    read_gives_at_least_one_byte_and_at_most_the_limit,
    a_writer_that_nobody_reads_waits_without_holding_the_loop,
    the_agent_sees_end_of_file_when_the_stream_is_closed,
    after_the_end_reading_gives_what_was_left_and_then_end_of_file,
    writing_after_the_end_raises_a_broken_pipe,
    a_cancelled_read_loses_nothing,
    close_lets_the_agent_leave_by_itself,
    close_kills_an_agent_that_does_not_leave,
    kill_is_idempotent_and_the_first_reason_wins,
    a_cancelled_kill_can_be_finished_by_another,
    cancelling_a_wait_does_not_end_the_cell,
    an_agent_that_ends_by_itself_has_crashed_and_its_last_words_are_told,
    a_flood_of_last_words_neither_blocks_nor_grows,
    a_boundary_that_is_killed_from_outside_is_lost,
    kill_leaves_nothing_of_a_cell_with_many_processes,
    a_loop_that_ends_with_an_open_cell_leaves_nothing,
    what_cannot_be_opened_is_refused_and_leaves_nothing,
    a_cancelled_open_leaves_nothing_at_whatever_moment,
    many_cells_open_and_end_at_once,
    usage_is_sane_while_it_runs_and_after,
    every_limit_is_reported_as_the_guarantees_say,
    what_was_generated_can_be_explained,
    nothing_of_the_hosts_environment_is_inside_or_explained,
    the_probe_answers_in_time_and_leaves_nothing,
    cells_die_with_a_host_process_that_is_killed,
    sweep_clears_what_dead_processes_left_and_spares_the_living,
    a_forked_child_neither_holds_nor_ends_its_parents_cells,
)
