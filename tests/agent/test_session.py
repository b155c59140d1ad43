"""The agent's end of the stream: what it answers to what it should not get, and how it ends."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from dayfly.boundaries.fake import FakeBoundary
from dayfly.wire.messages import Goodbye
from tests.agent.conftest import OpenRoom, open_room
from tests.agent.host import USER, Call, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def test_the_welcome_says_what_is_inside(shared: Host) -> None:
    assert shared.welcome is not None
    assert shared.welcome.nonce == "nonce"
    assert shared.welcome.facts["pid"] == 1
    assert {"python", "bash"} <= set(shared.welcome.facts["languages"])  # type: ignore[call-overload]


async def test_an_unknown_operation_is_refused_and_the_next_one_served(inside: Host) -> None:
    assert await (await inside.open("no.such.operation")).refusal() == "bad_request"
    assert await inside.out("echo served") == b"served\n"


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("file.stat", {}),
        ("file.stat", {"path": "x"}),
        ("file.stat", {"path": "x", "follow": False, "more": 1}),
        ("file.stat", {"path": 7, "follow": False}),
        ("process.list", {"unexpected": None}),
        ("process.start", {"argv": "ls"}),
    ],
)
async def test_wrong_params_are_a_bad_request(inside: Host, op: str, params: dict[str, Any]) -> None:
    assert await (await inside.open(op, **params)).refusal() == "bad_request"


async def test_an_event_that_the_operation_does_not_have_fails_its_channel_only(inside: Host) -> None:
    call = await inside.shell("sleep 300")
    await call.event("started")
    await call.tell("dance", steps=3)
    assert await call.refusal() == "bad_request"
    assert await inside.out("echo served") == b"served\n"


async def test_commands_whose_channel_failed_are_dead(inside: Host) -> None:
    call = await inside.shell("trap '' TERM; echo up; sleep 301")
    pid = (await call.event("started"))["pid"]
    await call.output(b"up")
    await call.tell("resize", rows="many", cols=1)
    assert await call.refusal() == "bad_request"
    await inside.out(f"while kill -0 {pid} 2>/dev/null; do sleep 0.05; done")


async def test_data_on_a_stream_that_nobody_expects_is_given_back(inside: Host) -> None:
    call = await inside.run("true", stdin=False)
    await call.send(b"x" * 400_000, stream=9)
    assert (await call.result())["exit_code"] == 0


async def test_sixty_four_channels_at_once_are_all_served(inside: Host) -> None:
    calls = [await inside.open("file.stat", path="/", follow=False) for _ in range(64)]
    for call in calls:
        assert (await call.result())["kind"] == "directory"


async def test_between_quiesce_and_resume_nothing_comes_and_nothing_is_lost(room: Host) -> None:
    call = await room.shell("echo before; read x; echo after; head -c 500000 /dev/zero; exit 4", stdin=True)
    await call.output(b"before")
    other = await room.shell("sleep 0.2; exit 5")
    await other.event("started")
    await room.quiesce()
    await room.resume()
    await (await call.send(b"go\n")).eof()
    assert (await call.result())["exit_code"] == 4
    assert len(call.stdout) == len(b"before\nafter\n") + 500_000
    assert (await other.result())["exit_code"] == 5


async def test_when_the_host_goes_away_the_cell_ends(room: Host) -> None:
    call = await room.shell("trap '' TERM HUP; echo up; while :; do sleep 1; done")
    await call.output(b"up")
    room.cell.stream.close()
    async with asyncio.timeout(10):
        assert (await room.cell.wait()).reason == "crashed"


async def test_when_the_host_goes_away_an_agent_without_a_cell_takes_its_children_along(
    agents: Path, tmp_path: Path
) -> None:
    async with open_room(FakeBoundary(trusted_code=True, directory=tmp_path), agents) as host:
        call = await host.shell("trap '' TERM HUP; setsid sleep 300 & echo $!; read x", stdin=True, detached=True)
        pids = [(await call.event("started"))["pid"], int(await call.output(b"\n"))]
        watched = [os.pidfd_open(pid) for pid in pids]
        host.cell.stream.close()
        for pidfd in watched:
            readable, _, _ = select.select([pidfd], [], [], 10)
            assert readable
            os.close(pidfd)


async def test_a_file_worker_that_dies_is_replaced(agents: Path, tmp_path: Path) -> None:
    async with open_room(FakeBoundary(trusted_code=True, directory=tmp_path), agents) as host:
        await (await host.write("file", b"x")).result()
        assert host.welcome is not None
        for pid in children(int(str(host.welcome.facts["pid"]))):
            os.kill(pid, signal.SIGKILL)
        replies = [await host.open("file.stat", path="file", follow=False) for _ in range(3)]
        answers = [reply.failure.code if reply.failure else reply.value for reply in replies if await over(host, reply)]
        assert answers[-1] != "other"
        assert await host.read("file") == b"x"


async def over(host: Host, call: Call) -> bool:
    await host.until(lambda: call.done)
    return True


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_goodbye_ends_the_agent_in_good_order(room: Host) -> None:
    room.connection.send(Goodbye("enough"))
    await room.flush()
    with pytest.raises(EOFError):
        await room.turn()
    assert (await room.cell.wait()).reason == "crashed"


async def test_a_host_that_breaks_the_protocol_is_left(room: Host) -> None:
    await room.cell.stream.write(b"\xff" * 64)
    with pytest.raises((EOFError, ConnectionResetError)):
        await room.turn()


@pytest.mark.parametrize(
    "options",
    [
        {"user": {"uid": 1000}},
        {"user": {**USER, "shell": "/bin/sh"}},
        {"limits": {"data": -1}},
        {"limits": {"unknown": 1}},
        {"env": {"A=": "x"}},
    ],
)
async def test_a_hello_that_makes_no_sense_ends_it_at_once(rooms: OpenRoom, options: dict[str, Any]) -> None:
    with pytest.raises((EOFError, ConnectionResetError)):
        await rooms(**options)


# --- settings -----------------------------------------------------------------------------------------------------


async def test_configured_environment_is_everybodys_from_then_on(inside: Host) -> None:
    await inside.ask("configure", env={"COLOUR": "green"}, limits={}, hostname=None)
    assert await inside.out("echo $COLOUR") == b"green\n"


async def test_a_bad_configuration_changes_nothing(inside: Host) -> None:
    params = {"env": {"TASTE": "sweet", "BAD=": "x"}, "limits": {}, "hostname": None}
    assert await (await inside.open("configure", **params)).refusal() == "bad_request"
    assert await inside.out("echo -n $TASTE") == b""


async def test_limits_can_only_be_tightened(room: Host) -> None:
    await room.ask("configure", env={}, limits={"open_files": 100}, hostname=None)
    assert await room.out("ulimit -n") == b"100\n"
    await room.ask("configure", env={}, limits={"open_files": 5000}, hostname=None)
    assert await room.out("ulimit -n") == b"100\n"


async def test_a_hostname_that_cannot_be_set_is_refused(shared: Host) -> None:
    call = await shared.open("configure", env={"SET": "no"}, limits={}, hostname="other")
    assert await call.refusal() == "denied"
    assert await shared.out("echo -n $SET") == b""


async def test_usage_counts_the_users_processes(shared: Host) -> None:
    before = await shared.ask("usage")
    call = await shared.python("import time; x = bytearray(80_000_000); print('up', flush=True); time.sleep(300)")
    await call.output(b"up")
    during = await shared.ask("usage")
    assert during["processes"] == before["processes"] + 1
    assert during["memory"] - before["memory"] > 50_000_000  # of 80: what those before it had is given back meanwhile
    assert during["cpu_seconds"] >= before["cpu_seconds"] > 0
    await call.cancel()
    await call.result()
