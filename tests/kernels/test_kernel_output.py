"""Output of runs: it streams, it is capped, and a slow host makes nobody hold it."""

from __future__ import annotations

import pytest

from dayfly.agent.kernels.contexts import MAX_HELD
from tests.agent.host import Call
from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

MIB = 1 << 20

FLOODS = [
    ("python", "line = 'x' * 79\nfor _ in range({size} // 80): print(line)"),
    ("python", "print('x' * ({size} - 1))"),
    ("bash", "yes {fill} | head -c {size}"),
    ("javascript", "for (let i = 0; i < {size} / 80; i++) console.log('x'.repeat(79))"),
]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "print('first')\nimport time; time.sleep(600)"),
        ("python", "import os; os.system('echo first'); os.system('sleep 600')"),
        ("bash", "echo first; sleep 600"),
        ("javascript", "console.log('first'); await new Promise(() => {})"),
        ("javascript", "console.log('first'); while (true) {}"),
    ],
)
async def test_output_arrives_while_the_code_runs(room: Room, language: str, code: str) -> None:
    call = await room.start(code, language)
    await call.output(b"first\n")
    assert not call.done
    await call.cancel()
    await call.result()


async def test_results_arrive_while_the_code_runs(room: Room) -> None:
    call = await room.start("display('shown')\nimport time; time.sleep(600)")
    await room.host.until(lambda: bool(call.streams.get(3)))
    assert not call.done
    await call.cancel()
    await call.result()


async def test_the_last_line_of_a_flood_arrives_before_the_run_is_over(room: Room) -> None:
    code = "for n in range(5000): print('line', n)\nimport time; time.sleep(600)"
    call = await room.start(code)
    await call.output(b"line 4999\n")
    await call.cancel()
    await call.result()


@pytest.mark.parametrize(("language", "code"), FLOODS)
async def test_every_byte_of_a_flood_arrives(room: Room, language: str, code: str) -> None:
    size = MIB // 80 * 80
    done = await room.run(code.format(size=size, fill="x" * 79), language, output=64 * MIB)
    assert (done.status, done.fields["dropped"]) == ("ok", 0)
    assert len(done.stdout) == size


@pytest.mark.parametrize(("language", "code"), FLOODS)
async def test_what_is_beyond_the_cap_is_dropped_and_counted(room: Room, language: str, code: str) -> None:
    size = MIB // 80 * 80
    done = await room.run(code.format(size=size, fill="x" * 79), language, output=100_000)
    assert done.status == "ok"
    assert len(done.stdout) == 100_000
    assert done.fields["dropped"] == size - 100_000


async def test_both_streams_and_the_results_share_one_cap(room: Room) -> None:
    code = "import sys\nprint('o' * 999)\nprint('e' * 999, file=sys.stderr)\nfor _ in range(50): display('d' * 90)"
    done = await room.run(code, output=5000)
    got = len(done.stdout) + len(done.stderr) + sum(len(str(data)) for data, _ in done.results)
    assert done.fields["dropped"] > 0
    assert got <= 5000


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "b'x' * 300_000"), ("javascript", "display({'text/html': 'x'.repeat(300000)})")],
)
async def test_a_result_beyond_the_cap_is_a_note_and_counted(room: Room, language: str, code: str) -> None:
    done = await room.run(code, language, output=200_000)
    assert (done.status, len(done.results)) == ("ok", 1)
    assert "is left out: this run may deliver 200000 bytes" in done.results[0][0]["text/plain"]
    assert done.fields["dropped"] >= 300_000
    assert done.fields["state_survived"]


async def test_a_result_just_below_the_cap_is_whole(room: Room) -> None:
    done = await room.run("'x' * 199_000", output=200_000)
    assert len(done.text or "") == 199_002


async def test_a_result_beyond_the_hard_limit_does_not_cost_the_kernel(room: Room) -> None:
    done = await room.run("kept = 1\nbytes(40 << 20)", output=1 << 30, cpu=60)
    assert (done.status, done.fields["state_survived"]) == ("ok", True), done.fields
    assert await room.value("kept") == "1"


async def agent_memory(room: Room) -> int:
    """Bytes of pid 1."""
    call = await room.host.shell("cut -d' ' -f2 /proc/1/statm")
    await call.result()
    return int(call.stdout) * 4096


@pytest.mark.parametrize(
    ("language", "code"),
    [
        *FLOODS[:3],
        ("python", "for _ in range({size} // 100_000): display({{'text/plain': 'x' * 100_000}}, raw=True)"),
    ],
)
async def test_a_host_that_does_not_read_makes_the_code_wait_and_the_agent_hold_little(
    room: Room, language: str, code: str
) -> None:
    before = await agent_memory(room)
    call = await room.start(code.format(size=12 * MIB, fill="x" * 79), language, output=1 << 30)
    call.reading = False
    await room.host.until(lambda: call.received > 10_000)
    assert await agent_memory(room) - before < 8 * MIB
    assert not call.done
    await read_all(room, call)
    done = await room.end(call)
    assert (done.status, done.fields["dropped"]) == ("ok", 0)
    assert await agent_memory(room) - before < 8 * MIB


async def read_all(room: Room, call: Call) -> None:
    await call.read_on()
    await room.host.until(lambda: call.done)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "while True: print('x' * 1000)"),
        ("python", "while True: display({'text/plain': 'x' * 50_000}, raw=True)"),
        ("bash", "yes"),
        ("javascript", "while (true) console.log('x'.repeat(1000))"),
    ],
)
async def test_a_flood_to_a_host_that_does_not_read_can_be_interrupted(room: Room, language: str, code: str) -> None:
    await room.run("echo kept > kept.txt", "bash")
    call = await room.start(code, language, output=1 << 30)
    call.reading = False
    await room.host.until(lambda: call.received > 10_000)
    await call.tell("interrupt", grace=2.0)
    done = await call.result()
    assert (done["status"], done["state_survived"]) == ("interrupted", True)
    await call.read_on()


async def checkpoint(room: Room) -> None:
    """Drain the connection and continue it."""
    room.host.quiesced = False
    await room.host.quiesce()
    await room.host.resume()
    await room.host.until(lambda: room.host.connection.state == "live")


async def test_a_checkpoint_in_the_middle_of_a_flood_loses_nothing(room: Room) -> None:
    call = await room.start("for n in range(100_000): print(n)\ndisplay('the end')", output=1 << 30)
    for _ in range(5):
        before = call.received
        await room.host.until(lambda seen=before: call.received > seen or call.done)
        await checkpoint(room)
    done = await room.end(call)
    assert done.stdout == "".join(f"{n}\n" for n in range(100_000))
    assert len(done.results) == 1


async def test_a_flood_in_one_context_does_not_starve_another(room: Room) -> None:
    flood = await room.start("while True: print('x' * 1000)", context="flood", output=1 << 30)
    flood.reading = False
    await room.host.until(lambda: flood.received > 10_000)
    assert await room.value("6 * 7", context="other") == "42"
    await flood.cancel()
    await flood.result()


async def between_runs(room: Room, code: str, context: str) -> None:
    """Have a thread of the kernel run ``code`` while no run is under way there, and wait until it has."""
    await room.run("rm -f go gone; mkfifo go gone", "bash")  # opening one waits for whoever opens its other end
    thread = (
        "import os, threading\ndef later():\n    open('go').close()\n"
        f"    {code}\n    open('gone', 'w').close()\nthreading.Thread(target=later).start()"
    )
    assert (await room.run(thread, context=context)).status == "ok"
    assert (await room.run(": > go; : < gone", "bash")).status == "ok"


async def test_output_that_arrives_between_runs_is_kept_up_to_a_bound(room: Room) -> None:
    await between_runs(room, "os.write(1, b'z' * 300_000)", context="between")
    done = await room.run("1", context="between")
    assert MAX_HELD <= done.stdout.count("z") < 300_000


async def test_results_that_are_shown_between_runs_belong_to_none(room: Room) -> None:
    await between_runs(room, "display('late')", context="shown-late")
    done = await room.run("1", context="shown-late")
    assert [data["text/plain"] for data, _ in done.results] == ["1"]


async def test_a_background_process_that_holds_the_pipes_does_not_hold_up_the_answer(room: Room) -> None:
    done = await room.run("import subprocess\nnoise = subprocess.Popen(['yes'])\n1", context="noisy")
    assert done.status == "ok"
    assert (await room.run("2", context="noisy")).status == "ok"
    await room.run("noise.kill(); noise.wait()", context="noisy")
