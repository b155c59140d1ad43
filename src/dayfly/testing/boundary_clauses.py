"""Clauses of the boundary contract about one cell: its stream, its end, its opening, and what is said about it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dayfly.boundaries.base import CellEnd
from dayfly.errors import DayflyError
from dayfly.spec import EndReason, Enforcement, SandboxSpec
from dayfly.testing.boundary_subject import HANGING, OPEN_SECONDS, SLEEPING, SOON, Subject, opened, within
from dayfly.testing.echo import Echo
from dayfly.testing.traces import Process, descendants, gone

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
            "for _ in range(10_000_000): pass"  # work, not time: on a loaded host a guest's CPU clock runs ahead
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
