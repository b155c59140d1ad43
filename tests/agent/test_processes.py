"""Commands, as the host sees them: the same in a plain process and in gVisor."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.agent.host import Host

WAIT_FOR_THE_FOREGROUND = b"""python3 -c '
import os, time
while os.tcgetpgrp(0) != os.getpgrp(): time.sleep(0.01)
print("in", "front"); time.sleep(300)'
"""

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def test_a_command_gives_its_output_on_two_streams_and_its_exit_code(inside: Host) -> None:
    call = await inside.shell("echo out; echo err >&2; exit 7")
    assert await call.result() == {"exit_code": 7, "signal": None, "dropped": 0, "limit": None, "leftovers": 0}
    assert (call.stdout, call.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
async def test_every_exit_code_arrives_exactly(inside: Host, code: int) -> None:
    assert (await (await inside.shell(f"exit {code}")).result())["exit_code"] == code


async def test_a_death_by_signal_is_told_as_one(inside: Host) -> None:
    value = await (await inside.shell("kill -SEGV $$")).result()
    assert (value["exit_code"], value["signal"]) == (None, signal.SIGSEGV)


async def test_a_program_that_is_not_there_is_said_to_be(inside: Host) -> None:
    call = await inside.run("no-such-program")
    assert await call.refusal() == "cannot_start"
    assert call.failure is not None
    assert "No such file" in call.failure.message


async def test_a_file_that_is_no_program_is_said_to_be(inside: Host) -> None:
    call = await inside.run("/etc/passwd")
    assert await call.refusal() == "cannot_start"
    assert call.failure is not None
    assert "Permission denied" in call.failure.message


async def test_a_working_directory_that_is_not_there_is_named_as_the_reason(inside: Host) -> None:
    call = await inside.run("true", cwd="/no/such/directory")
    assert await call.refusal() == "cannot_start"
    assert call.failure is not None
    assert "working directory" in call.failure.message


async def test_arguments_arrive_as_they_are(inside: Host) -> None:
    call = await inside.run("printf", "%s|", "a b", "$HOME", "*", "'", "", "\n", "é", "\udcff")
    await call.result()
    assert call.stdout == b"a b|$HOME|*|'||\n|\xc3\xa9|\xff|"


async def test_environment_is_added_to_the_sandboxs_own(inside: Host) -> None:
    call = await inside.shell("echo $COLOUR:$HOME:$LANG", env={"COLOUR": "blue"})
    await call.result()
    colour, home, lang = call.stdout.decode().strip().split(":")
    assert (colour, lang) == ("blue", "C.UTF-8")
    assert home.startswith("/")


async def test_a_command_starts_in_the_home_or_where_it_is_told(inside: Host) -> None:
    assert await inside.out("echo $HOME") == await inside.out("pwd -P")
    call = await inside.run("pwd", cwd="/usr/bin")
    await call.result()
    assert call.stdout == b"/usr/bin\n"


async def test_without_stdin_a_command_reads_the_end_at_once(inside: Host) -> None:
    call = await inside.run("cat")
    assert (await call.result())["exit_code"] == 0


async def test_stdin_of_any_size_is_delivered_and_ended(inside: Host) -> None:
    call = await inside.run("wc", "-c", stdin=True)
    await (await call.send(b"x" * 3_000_000)).eof()
    await call.result()
    assert int(call.stdout) == 3_000_000


async def test_stdin_that_nobody_reads_does_not_stop_the_command_or_its_answer(inside: Host) -> None:
    call = await inside.shell("exec <&-; sleep 0.1; echo done", stdin=True)
    await (await call.send(b"x" * 1_000_000)).eof()
    await call.result()
    assert call.stdout == b"done\n"


async def test_the_answer_to_a_command_that_closed_its_output_waits_for_its_exit(inside: Host) -> None:
    value = await (await inside.shell("exec >&- 2>&-; sleep 0.2; exit 5")).result()
    assert value["exit_code"] == 5


async def test_output_beyond_the_cap_is_counted_and_does_not_block(inside: Host) -> None:
    call = await inside.shell("head -c 3000000 /dev/zero; head -c 500 /dev/zero >&2", output=1000)
    value = await call.result()
    assert len(call.stdout) + len(call.stderr) == 1000
    assert value["dropped"] == 3_000_500 - 1000


async def test_a_host_that_does_not_read_stops_the_writer_and_loses_nothing(inside: Host) -> None:
    call = await inside.shell("head -c 3000000 /dev/zero; echo -n end", output=1 << 30)
    call.reading = False
    other = await inside.shell("echo other")
    await other.result()
    assert not call.done
    await call.read_on()
    await call.result()
    assert len(call.stdout) == 3_000_003
    assert call.stdout.endswith(b"end")


async def test_no_one_waits_for_a_grandchild_that_holds_stdout(inside: Host) -> None:
    async with asyncio.timeout(20):
        call = await inside.shell("(sleep 300 &) ; echo parent; exit 3")
        value = await call.result()
    assert (value["exit_code"], value["leftovers"]) == (3, 1)
    assert call.stdout == b"parent\n"


async def test_leftovers_are_killed_and_counted(inside: Host) -> None:
    value = await (await inside.shell("sleep 300 & sleep 301 & setsid sleep 302 & exit 0")).result()
    assert value["leftovers"] == 3
    assert b"sleep 30" not in await _commands(inside)


async def test_stop_asks_first(inside: Host) -> None:
    call = await inside.shell("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done")
    await call.output(b"up")
    await call.tell("stop", grace=30.0)
    assert (await call.result())["exit_code"] == 9
    assert call.stdout == b"up\nbye\n"


async def test_stop_kills_what_does_not_listen(inside: Host) -> None:
    call = await inside.shell("trap '' TERM; echo up; sleep 300 & while :; do sleep 0.05; done")
    await call.output(b"up")
    await call.tell("stop", grace=0.1)
    value = await call.result()
    assert value["signal"] == signal.SIGKILL
    assert b"sleep 300" not in await _commands(inside)


async def test_stop_reaches_a_stopped_command(inside: Host) -> None:
    call = await inside.shell("echo up; kill -STOP $$; sleep 300")
    await call.output(b"up")
    await call.tell("stop", grace=0.2)
    assert (await call.result())["signal"] in (signal.SIGTERM, signal.SIGKILL)


async def test_signals_reach_the_whole_group(inside: Host) -> None:
    wait = "while :; do sleep 0.05; done"
    child = f"(trap 'echo child; exit' USR1; echo one; {wait}) &"
    call = await inside.shell(f"{child} trap 'wait; echo parent; exit 4' USR1; echo two; {wait}")
    pid = (await call.event("started"))["pid"]
    await call.output(b"one")
    await call.output(b"two")
    await inside.ask("process.signal", pid=pid, signal=int(signal.SIGUSR1))
    assert (await call.result())["exit_code"] == 4
    assert {b"child", b"parent"} <= set(call.stdout.split())


@pytest.mark.parametrize("number", [0, -1, 65, 1 << 40])
async def test_a_number_that_is_no_signal_is_refused(inside: Host, number: int) -> None:
    call = await inside.shell("sleep 300")
    pid = (await call.event("started"))["pid"]
    assert await (await inside.open("process.signal", pid=pid, signal=number)).refusal() == "bad_request"
    await call.cancel()
    await call.result()


async def test_cancelling_kills_a_command_that_is_not_detached(inside: Host) -> None:
    call = await inside.shell("trap '' TERM INT; echo up; while :; do sleep 0.05; done")
    await call.output(b"up")
    await call.cancel()
    assert (await call.result())["signal"] == signal.SIGKILL


async def test_a_command_that_uses_up_its_cpu_time_is_killed_and_says_why(inside: Host) -> None:
    call = await inside.shell("while :; do :; done", cpu_seconds=0.3)
    value = await call.result()
    assert (value["signal"], value["limit"]) == (signal.SIGKILL, "run_cpu_seconds")


async def test_cpu_time_counts_over_all_processes_of_a_command(inside: Host) -> None:
    call = await inside.shell("for i in 1 2 3 4; do (while :; do :; done) & done; wait", cpu_seconds=0.4)
    assert (await call.result())["limit"] == "run_cpu_seconds"


async def test_sleeping_costs_no_cpu_time(inside: Host) -> None:
    call = await inside.shell("sleep 0.6", cpu_seconds=0.5)
    assert (await call.result())["exit_code"] == 0


# --- detached -----------------------------------------------------------------------------------------------------


async def test_a_detached_command_goes_on_without_its_channel(inside: Host) -> None:
    call = await inside.shell("echo one; read x; echo two; sleep 0.3; echo three", stdin=True, detached=True)
    pid = (await call.event("started"))["pid"]
    await call.output(b"one")
    await call.cancel()
    assert await call.refusal() == "cancelled"
    again = await inside.open("process.connect", pid=pid, output=1 << 20)
    assert (await again.result())["exit_code"] == 0
    assert again.stdout == b"one\ntwo\nthree\n"


async def test_several_may_follow_one_command_each_with_a_cap_of_its_own(inside: Host) -> None:
    call = await inside.shell("echo start; read x; echo end", stdin=True, detached=True)
    pid = (await call.event("started"))["pid"]
    await call.output(b"start")
    one = await inside.open("process.connect", pid=pid, output=1 << 20)
    two = await inside.open("process.connect", pid=pid, output=8)
    await one.output(b"start")
    await (await call.send(b"go\n")).eof()
    for follower in (call, one):
        await follower.result()
        assert follower.stdout == b"start\nend\n"
    assert (await two.result())["dropped"] == 2
    assert two.stdout == b"start\nen"


async def test_who_connects_late_gets_the_last_256_kib(inside: Host) -> None:
    call = await inside.shell("head -c 2000000 /dev/zero; echo -n tail", detached=True, output=10)
    pid = (await call.event("started"))["pid"]
    await call.result()
    late = await inside.open("process.connect", pid=pid, output=1 << 22)
    assert (await late.result())["exit_code"] == 0
    assert len(late.stdout) == 256 * 1024
    assert late.stdout.endswith(b"tail")


async def test_the_list_shows_running_and_ended_detached_commands(inside: Host) -> None:
    call = await inside.shell("read x; exit 6", stdin=True, detached=True, cwd="/usr")
    pid = (await call.event("started"))["pid"]

    async def entry() -> dict[str, object]:
        listed = (await inside.ask("process.list"))["processes"]
        return next(one for one in listed if one["pid"] == pid)

    assert await entry() == {
        "pid": pid, "argv": ["/bin/bash", "-c", "read x; exit 6"], "cwd": "/usr", "running": True, "pty": False,
        "exit_code": None, "signal": None,
    }  # fmt: skip
    await call.eof()
    await call.result()
    assert (await entry())["running"] is False
    assert (await entry())["exit_code"] == 6


async def test_ordinary_commands_leave_the_list_when_they_end(inside: Host) -> None:
    call = await inside.shell("exit 0")
    pid = (await call.event("started"))["pid"]
    await call.result()
    assert pid not in {one["pid"] for one in (await inside.ask("process.list"))["processes"]}


async def test_what_was_not_started_here_cannot_be_connected_to_or_signalled(inside: Host) -> None:
    assert await (await inside.open("process.connect", pid=1, output=10)).refusal() == "no_such_process"
    assert await (await inside.open("process.signal", pid=1, signal=9)).refusal() == "no_such_process"


async def test_stop_ends_all_of_a_detached_command(inside: Host) -> None:
    call = await inside.shell("sleep 300 & echo up; wait", detached=True)
    await call.output(b"up")
    await call.tell("stop", grace=5.0)
    await call.result()
    assert b"sleep 300" not in await _commands(inside)


async def test_many_commands_run_at_once(inside: Host) -> None:
    calls = [await inside.shell(f"echo {number}; sleep 0.1") for number in range(20)]
    for number, call in enumerate(calls):
        await call.result()
        assert call.stdout == b"%d\n" % number


# --- terminals ----------------------------------------------------------------------------------------------------


async def test_a_terminal_has_a_size_that_can_change(inside: Host) -> None:
    call = await inside.shell(
        "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.05; done", pty=_size(24, 80)
    )
    await call.output(b"24 80")
    await call.tell("resize", rows=50, cols=132)
    assert (await call.result())["exit_code"] == 0
    assert b"50 132" in call.stdout


async def test_a_terminal_is_the_controlling_one_and_control_c_interrupts(inside: Host) -> None:
    call = await inside.shell(
        "tty; echo up; exec sleep 300", pty=_size(24, 80)
    )  # dash loses one while it starts another
    await call.output(b"up")
    assert b"/dev/pts/" in call.stdout
    await call.send(b"\x03")
    assert (await call.result())["signal"] == signal.SIGINT


async def test_a_shell_on_a_terminal_has_job_control(inside: Host) -> None:
    call = await inside.run("/bin/bash", "--norc", "-i", pty=_size(24, 80), env={"PS1": "prompt> "})
    await call.output(b"prompt> ")
    await call.send(WAIT_FOR_THE_FOREGROUND)
    await call.output(b"in front")
    await call.send(b"\x1a")
    await call.output(b"Stopped")
    await call.cancel()
    await call.result()


async def test_the_end_of_input_on_a_terminal_is_a_typed_one(inside: Host) -> None:
    call = await inside.run("cat", pty=_size(24, 80))
    await call.send(b"line\n")
    await call.output(b"line\r\nline")
    await call.eof()
    assert (await call.result())["exit_code"] == 0


async def test_all_output_of_a_terminal_comes_on_stdout(inside: Host) -> None:
    call = await inside.shell("echo a; echo b >&2", pty=_size(24, 80))
    await call.result()
    assert (call.stdout, call.stderr) == (b"a\r\nb\r\n", b"")


@pytest.mark.parametrize("size", [{}, {"rows": 1}, {"rows": 0, "cols": 1}, {"rows": 1, "cols": 1 << 40}])
async def test_a_terminal_of_no_size_is_refused(inside: Host, size: dict[str, int]) -> None:
    assert await (await inside.shell("true", pty=size)).refusal() == "bad_request"


# --- requests that make no sense ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": []},
        {"argv": [""]},
        {"argv": [1]},
        {"argv": ["a\0b"]},
        {"cwd": "a\0b"},
        {"env": {"A=B": "c"}},
        {"env": {"A": 1}},
        {"env": {"": "x"}},
        {"argv": ["\ud800"]},
        {"pty": "yes"},
    ],
)
async def test_a_bad_request_is_refused_and_the_next_one_served(inside: Host, changes: dict[str, object]) -> None:
    assert await (await inside.run("true", **changes)).refusal() == "bad_request"
    assert (await (await inside.run("true")).result())["exit_code"] == 0


def _size(rows: int, cols: int) -> dict[str, int]:
    return {"rows": rows, "cols": cols}


async def _commands(host: Host) -> bytes:
    """What the user's processes are called: of the sandbox, or below the agent of the fake boundary."""
    return await host.out(
        "ps -o args= --ppid $PPID 2>/dev/null || cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true"
    )
