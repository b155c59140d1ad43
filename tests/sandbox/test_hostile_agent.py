"""Whatever the agent says or does not say, the host has a typed end in time. The clock is held: nothing here sleeps."""

from __future__ import annotations

import asyncio
import json

import pytest

from dayfly.errors import BoundaryUnusable, InputError, SandboxEnded, SandboxFileError
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.sandbox.deadlines import SILENCE_SECONDS
from dayfly.sandbox.hearing import FRAME_SECONDS
from dayfly.sandbox.rest import FREEZE_SECONDS
from dayfly.sandbox.runs import CONFIRM_SECONDS
from dayfly.spec import EndReason, Execution, Outcome, Usage
from dayfly.testing.scripted import Asked, MemoryStream, ScriptedBoundary, scripted_spec
from dayfly.wire.errors import LocalProtocolError
from dayfly.wire.messages import BY_CLASS, Cancel, Data, Event, Fail, Finish, Message, Welcome, encode
from dayfly.wire.operations import RESULTS, STDERR, STDOUT
from tests.sandbox.living import DONE, living


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_honest_run_gives_its_output_results_and_outcome() -> None:
    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, "h\u00e9".encode()[:2])
        await asked.data(STDOUT, "h\u00e9llo".encode()[2:])
        await asked.data(STDERR, b"\xff")
        record = json.dumps({"data": {"text/plain": "42", "image/png": "iVBO"}, "metadata": {}, "main": True}).encode()
        await asked.data(RESULTS, len(record).to_bytes(4, "big") + record)
        await asked.finish(**{**DONE, "count": 3})

    async with living(script) as (life, _):
        done = await life.execute("42")
    assert (done.outcome, done.stdout, done.stderr, done.execution_count) == (Outcome.OK, "h\u00e9llo", "\ufffd", 3)
    assert done.text == "42"
    assert done.results[0].png == b"\x89\x50\x4e"


@pytest.mark.parametrize("takes", [0, 1, 27, 40, 10**9])
async def test_a_pipe_that_takes_a_part_of_a_call_gets_the_rest_in_order(
    takes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bytes of a call leave at once; what the pipe does not take then goes before anything later."""
    asked_for: list[object] = []

    async def script(asked: Asked) -> None:
        asked_for.append(asked.params["code"])
        await asked.finish(**DONE)

    def some(stream: MemoryStream, *buffers: bytes | memoryview) -> int:
        data = b"".join(buffers)[:takes]
        if data:
            stream.peer._arrived.put_nowait(data)
        return len(data)

    async def all_of_it(stream: MemoryStream, *buffers: bytes | memoryview) -> None:
        await asyncio.sleep(0)
        stream.peer._arrived.put_nowait(b"".join(buffers))

    monkeypatch.setattr(MemoryStream, "write_now", some)
    monkeypatch.setattr(MemoryStream, "write", all_of_it)
    async with living(script) as (life, _):
        done = await asyncio.gather(*(life.execute(f"{n}" * 50) for n in range(9)))
    assert [one.outcome for one in done] == [Outcome.OK] * 9
    assert asked_for == [f"{n}" * 50 for n in range(9)]


async def test_an_agent_that_never_confirms_an_end_loses_its_cell() -> None:
    async def script(asked: Asked) -> None:
        while True:  # honest about being alive, silent about the run
            await asked.wait_for(Event)

    async with living(script) as (life, cell):
        begun = now()
        done = await life.execute("while True: pass", timeout=2)
        took = now() - begun
    assert done.outcome is Outcome.TIMEOUT
    assert done.end_reason is EndReason.UNRESPONSIVE
    assert not done.state_survived
    assert took <= 2 + CONFIRM_SECONDS + 0.1
    assert cell.kills[0][0] is EndReason.UNRESPONSIVE


async def test_a_silent_agent_is_found_out_while_it_is_asked_for_a_file() -> None:
    async def script(asked: Asked) -> None:
        await asyncio.Event().wait()

    async with living(script) as (life, cell):
        cell.agent.connection.receive = lambda data: []  # deaf from now on: not even a Pong
        begun = now()
        with pytest.raises(SandboxEnded) as caught:
            await life.stat("x")
        assert now() - begun <= 6
    assert caught.value.reason == EndReason.UNRESPONSIVE


async def test_silence_has_30_s_where_the_cpus_are_in_use() -> None:
    async def script(asked: Asked) -> None:
        await asyncio.Event().wait()

    async with living(script) as (life, cell):
        cell.agent.connection.receive = lambda data: []
        cell.usage = lambda: Usage(cpu_seconds=now())  # one core, all the time
        begun = now()
        with pytest.raises(SandboxEnded, match="unresponsive"):
            await life.stat("x")
        assert 29 < now() - begun <= 31


async def test_a_frame_that_trickles_in_is_no_sign_of_life_for_ever() -> None:
    """Deaf, and a byte a second: the answer of a run would take minutes."""
    begun = now()
    done = await trickled(pieces=10**6)
    assert (done.outcome, done.end_reason) == (Outcome.SANDBOX_ENDED, EndReason.UNRESPONSIVE)
    assert now() - begun <= FRAME_SECONDS + SILENCE_SECONDS + 1


async def test_a_frame_that_comes_slowly_and_whole_is_one() -> None:
    """The control."""
    assert (await trickled(pieces=int(FRAME_SECONDS) - 5)).outcome is Outcome.OK


async def trickled(pieces: int) -> Execution:
    """A run whose answer comes in so many pieces, or byte by byte, one a second."""

    async def script(asked: Asked) -> None:
        connection = asked.agent.connection
        connection.receive = lambda data: []  # type: ignore[method-assign]
        connection.send(Finish(DONE), asked.channel)
        frame = b"".join(connection.take_output())
        size = max(1, -(-len(frame) // pieces))
        for at in range(0, len(frame), size):
            await asyncio.sleep(1)
            await asked.agent.stream.write(frame[at : at + size])

    async with living(script) as (life, _):
        return await life.execute("1")


async def test_an_agent_that_does_not_greet_makes_open_fail_and_leaves_nothing() -> None:
    boundary = ScriptedBoundary(None, greets=False)
    policy = Policy()
    with pytest.raises(BoundaryUnusable, match="did not answer"):
        await Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
    assert boundary.cell.kills


async def test_a_cell_that_dies_before_the_greeting_says_why() -> None:
    boundary = ScriptedBoundary(None, greets=False)
    policy = Policy()
    opening = asyncio.ensure_future(Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=()))
    await asyncio.sleep(0.01)
    boundary.cell.die(EndReason.CRASHED, "exec format error")
    with pytest.raises(BoundaryUnusable, match="exec format error"):
        await opening


async def forge(asked: Asked, message: Message, channel: int) -> None:
    """Send a message that the agent's own state machine would refuse to send."""
    asked.agent.connection._ledger.emit(BY_CLASS[type(message)], channel, 0, encode(message))
    await asked.agent.flush()


@pytest.mark.parametrize(
    ("what", "message", "on_channel"),
    [
        ("another greeting", Welcome(1, "x", {}), False),
        ("an event the table does not list", Event("ready", {}), True),
        ("an event of another operation", Event("started", {"pid": 1}), True),
        ("an answer with a field of another type", Finish({**DONE, "count": "1"}), True),
        ("an answer with missing fields", Finish({"status": "ok"}), True),
        ("an answer with unknown fields", Finish({**DONE, "extra": 1}), True),
    ],
)
async def test_a_broken_rule_ends_the_sandbox_as_a_violation(what: str, message: Message, on_channel: bool) -> None:
    async def script(asked: Asked) -> None:
        await forge(asked, message, asked.channel if on_channel else 0)

    async with living(script) as (life, _):
        done = await life.execute("1")
    assert done.outcome is Outcome.SANDBOX_ENDED, what
    assert done.end_reason is EndReason.PROTOCOL_VIOLATION, what


async def test_garbage_on_the_stream_ends_the_sandbox_as_a_violation() -> None:
    async def script(asked: Asked) -> None:
        await asked.agent.stream.write(b"\xff" * 64)

    async with living(script) as (life, _):
        done = await life.execute("1")
    assert done.end_reason is EndReason.PROTOCOL_VIOLATION


@pytest.mark.parametrize(
    "record",
    [
        b"\xff\xff\xff\xff",  # a length beyond every cap
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x02{",
        (lambda body: len(body).to_bytes(4, "big") + body)(b'{"data":{"image/png":"%%%"},"metadata":{},"main":true}'),
        (lambda body: len(body).to_bytes(4, "big") + body)(b'{"data":{"text/html":5},"metadata":{},"main":true}'),
    ],
)
async def test_a_malformed_result_ends_the_sandbox_as_a_violation(record: bytes) -> None:
    async def script(asked: Asked) -> None:
        await asked.data(RESULTS, record + b" ")
        await asked.finish(**DONE)

    async with living(script) as (life, _):
        done = await life.execute("1")
    assert done.end_reason is EndReason.PROTOCOL_VIOLATION


async def test_output_beyond_the_cap_is_dropped_and_counted_even_if_the_agent_sends_it() -> None:
    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, b"x" * 1_000_000)
        await asked.finish(**DONE)

    async with living(script, output=4096) as (life, _):
        done = await life.execute("1")
    assert len(done.stdout) == 4096
    assert done.dropped == 1_000_000 - 4096
    assert done.limit == "output"


async def test_a_cell_that_dies_under_a_run_gives_the_output_so_far_and_the_reason() -> None:
    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, b"so far")
        cell.die(EndReason.MEMORY_LIMIT, "1 GiB")

    async with living(script) as (life, cell):
        done = await life.execute("1")
    assert (done.outcome, done.stdout, done.limit) == (Outcome.SANDBOX_ENDED, "so far", "memory")


async def test_an_ended_sandbox_refuses_every_call_with_the_reason() -> None:
    async with living(None) as (life, cell):
        cell.die(EndReason.DISK_LIMIT)
        await life.ended()
        for call in (life.stat("x"), life.list_processes(), life.contexts(), life.write_file("x", _no_chunks())):
            with pytest.raises(SandboxEnded, match="disk_limit"):
                await call


async def _no_chunks():
    return
    yield b""


async def test_a_sink_that_hangs_does_not_delay_the_deadline() -> None:
    class Hanging:
        async def stdout(self, text: str) -> None:
            await asyncio.Event().wait()

    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, b"x")
        await asked.wait_for(Event)
        await asked.finish(**{**DONE, "status": "interrupted"})

    async with living(script) as (life, _):
        begun = now()
        done = await life.execute("1", timeout=3, sink=Hanging())
        assert now() - begun < 3.5
    assert done.outcome is Outcome.TIMEOUT
    assert done.state_survived


async def test_a_sink_that_raises_stops_the_run_and_its_error_reaches_the_caller() -> None:
    stopped = asyncio.Event()

    class Raising:
        async def stdout(self, text: str) -> None:
            raise KeyError("sink")

    async def script(asked: Asked) -> None:
        if asked.op == "execute":
            await asked.data(STDOUT, b"x")
            await asked.wait_for(Event)
            stopped.set()
            await asked.finish(**DONE)

    async with living(script) as (life, _):
        with pytest.raises(KeyError):
            await life.execute("1", sink=Raising())
        assert stopped.is_set()
        assert life.end_reason is None


async def test_cancelling_a_run_interrupts_it_inside_first() -> None:
    interrupted = asyncio.Event()

    async def script(asked: Asked) -> None:
        await asked.wait_for(Event)
        interrupted.set()
        await asked.finish(**{**DONE, "status": "interrupted"})

    async with living(script) as (life, _):
        run = asyncio.ensure_future(life.execute("1"))
        await asyncio.sleep(1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert interrupted.is_set()
        assert life.end_reason is None


async def test_a_refusal_becomes_a_typed_error_with_escaped_text() -> None:
    async def script(asked: Asked) -> None:
        await asked.fail("not_found", "gone\x1b[2J")

    async with living(script) as (life, _):
        with pytest.raises(SandboxFileError) as caught:
            await life.stat("there")
    assert caught.value.path == "there"
    assert "\x1b" not in str(caught.value)


async def test_an_upload_that_is_refused_stops_reading_its_source() -> None:
    sent = 0

    async def chunks():
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 65536

    async def script(asked: Asked) -> None:
        await asked.wait_for(Data)
        await asked.send(Fail("no_space", "full"))

    async with living(script) as (life, _):
        with pytest.raises(SandboxFileError):
            await life.write_file("big", chunks())
    assert sent < 100


async def test_a_download_that_is_left_early_is_cancelled_inside() -> None:
    cancelled = asyncio.Event()

    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, b"x" * 1000)
        await asked.wait_for(Cancel)
        cancelled.set()
        await asked.fail("cancelled", "")

    async with living(script) as (life, _):
        chunks = life.read_file("big")
        assert await anext(chunks)
        await chunks.aclose()
        await asyncio.wait_for(cancelled.wait(), 1)


async def test_a_flood_of_events_is_held_back_by_the_window() -> None:
    flooded: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def script(asked: Asked) -> None:
        sent = 0
        try:
            while sent < 100_000:
                asked.agent.connection.send(Event("change", {"kind": "modified", "path": "x" * 100}), asked.channel)
                sent += 1
        except LocalProtocolError:
            flooded.set_result(sent)
        await asked.agent.flush()

    async with living(script) as (life, _):
        changes = life.watch("x")
        assert await anext(changes) == ("modified", "x" * 100)
        assert await flooded < 2000
        await changes.aclose()


async def test_idle_and_lifetime_end_a_sandbox_on_the_held_clock() -> None:
    async with living(None, idle_seconds=30, lifetime_seconds=100) as (life, _):
        begun = now()
        end = await life.ended()
        assert (end.reason, round(now() - begun)) == (EndReason.IDLE_TIMEOUT, 30)

    async def busy(asked: Asked) -> None:
        while True:
            await asyncio.sleep(1)
            await asked.data(STDOUT, b".")

    async with living(busy, idle_seconds=30, lifetime_seconds=100, run_seconds=1000) as (life, _):
        done = await life.execute("1")
        assert done.end_reason is EndReason.MAX_LIFETIME


@pytest.mark.parametrize(
    "bad",
    [{"timeout": 0}, {"timeout": float("nan")}, {"timeout": "5"}, {"output": -1}, {"language": ""}, {"context": 5}],
)
async def test_unusable_arguments_are_refused_before_anything_is_sent(bad) -> None:
    async with living(None) as (life, _):
        with pytest.raises(InputError):
            await life.execute("1", **bad)


async def test_code_that_does_not_fit_in_a_frame_is_refused_with_the_remedy() -> None:
    async with living(None) as (life, _):
        with pytest.raises(InputError, match="file"):
            await life.execute("x" * (2 << 20))


async def test_close_is_idempotent_and_concurrent() -> None:
    async with living(None) as (life, cell):
        await asyncio.gather(life.close(), life.close(), life.kill(EndReason.EVICTED, ""))
        await life.close()
        assert life.end_reason is EndReason.STOPPED
    assert len(cell.kills) == 1


async def test_a_frozen_sandbox_is_thawed_to_leave_in_good_order() -> None:
    async with living(None) as (life, cell):
        await asyncio.sleep(FREEZE_SECONDS + 0.1)
        await life.close()
        assert not cell.frozen


async def test_a_character_that_was_never_finished_reaches_the_sink_too() -> None:
    async def script(asked: Asked) -> None:
        await asked.data(STDOUT, b"a\xe2\x82")
        await asked.data(STDERR, b"\xff\xc3")
        await asked.finish(**DONE)

    told: dict[str, str] = {"out": "", "err": ""}

    class Sink:
        async def stdout(self, text: str) -> None:
            told["out"] += text

        async def stderr(self, text: str) -> None:
            told["err"] += text

        async def result(self, result: object) -> None: ...

    async with living(script) as (life, _):
        done = await life.execute("1", sink=Sink())
    assert (done.stdout, done.stderr) == (told["out"], told["err"]) == ("a\ufffd", "\ufffd\ufffd")
