"""Bash as a kernel: a shell that stays."""

from __future__ import annotations

import pytest

from tests.kernels.room import Done, Room

PRESTART = ["bash"]

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def bash(room: Room, code: str, context: str = "bash") -> Done:
    return await room.run(code, "bash", context=context)


@pytest.mark.parametrize(
    ("first", "then", "printed"),
    [
        ("x=5", "echo $x", "5\n"),
        ("cd /tmp", "pwd", "/tmp\n"),
        ("greet() { echo hello $1; }", "greet you", "hello you\n"),
        ("declare -A ages=([ann]=40)", "echo ${ages[ann]}", "40\n"),
        ("export COLOUR=red", "printenv COLOUR", "red\n"),
        ("set -- a b c", "echo $2", "b\n"),
        ("shopt -s nullglob", "echo *.none-such", "\n"),
        ("alias_me=1; readonly R=2", "echo $R", "2\n"),
        ("false", "echo $?", "0\n"),
    ],
)
async def test_state_persists(room: Room, first: str, then: str, printed: str) -> None:
    await bash(room, first, context="state")
    assert (await bash(room, then, context="state")).stdout == printed
    await room.host.ask("context.remove", context="state")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("true", 0), ("false", 1), ("(exit 42)", 42), ("return 7", 7), ("no-such-command", 127), ("true; false", 1)],
)
async def test_the_exit_code_is_the_last_commands_and_no_error(room: Room, code: str, exit_code: int) -> None:
    done = await bash(room, code)
    assert (done.status, done.fields["exit_code"], done.fields["error"]) == ("ok", exit_code, None)
    assert done.fields["state_survived"]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("exit 3", 3),
        ("exit", 0),
        ("set -e; (exit 3); echo not reached", 3),
        ("set -u; echo $none_such; echo not reached", 127),
        ("exec sh -c 'exit 3'", 3),
        ("exec true", 0),
    ],
)
async def test_a_script_that_ends_its_shell_is_no_failure_and_the_next_run_starts_afresh(
    room: Room, code: str, exit_code: int
) -> None:
    await bash(room, "kept=1", context="exiting")
    done = await bash(room, f"echo bye; {code}", context="exiting")
    assert (done.status, done.fields["exit_code"], done.stdout) == ("ok", exit_code, "bye\n")
    assert (done.fields["error"], done.fields["signal"], done.fields["state_survived"]) == (None, None, False)
    assert (await bash(room, "echo [$kept]", context="exiting")).stdout == "[]\n"


@pytest.mark.parametrize(
    ("code", "signal"),
    [("kill -9 $$", 9), ("exec sh -c 'kill -TERM $$'", 15), ("exec {__dayfly_fd}>&-; false", 9)],
)
async def test_a_shell_that_did_not_exit_by_itself_died(room: Room, code: str, signal: int) -> None:
    done = await bash(room, code, context="exiting")
    assert (done.status, done.error["name"], done.fields["signal"]) == ("died", "KernelDied", signal)
    assert (await bash(room, "echo fine", context="exiting")).stdout == "fine\n"


@pytest.mark.parametrize(
    "code", ["echo 'open", 'echo "open', "if true; then echo", "f() {", "echo $(", "case x in", ")"]
)
async def test_code_that_does_not_parse_is_an_error_and_not_a_hang(room: Room, code: str) -> None:
    done = await bash(room, code)
    assert (done.status, done.error["name"]) == ("error", "SyntaxError")
    assert "line " in done.error["value"]
    assert (await bash(room, "echo fine")).stdout == "fine\n"


async def test_an_exit_code_of_two_is_not_taken_for_a_syntax_error(room: Room) -> None:
    done = await bash(room, "ls /no/such/file")
    assert (done.status, done.fields["exit_code"]) == ("ok", 2)


@pytest.mark.parametrize("code", ["cat", "read x; echo [$x]", "python3 -c 'import sys; print(sys.stdin.read())'"])
async def test_code_that_reads_stdin_gets_its_end(room: Room, code: str) -> None:
    assert (await bash(room, code)).status == "ok"


async def test_error_messages_name_the_line_of_the_cell(room: Room) -> None:
    done = await bash(room, "true\ntrue\nno-such-command")
    assert "line 3: no-such-command: command not found" in done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        "trap 'echo trapped' DEBUG ERR RETURN",
        "set -euo pipefail; true",
        "set -x; true",
        "exec >/dev/null 2>&1",
        "exec 1>&- 2>&-",
        "exec </etc/passwd",
        "shopt -s extdebug; set -T",
        "IFS=x",
        "LC_ALL=xx_XX",
        "unset PATH",
        "trap '' INT",
        "PS4=boom; BASH_ENV=/nope",
        "f() { return 2; }; trap f DEBUG",
    ],
)
async def test_the_next_run_works_whatever_the_last_one_set(room: Room, damage: str) -> None:
    await bash(room, damage, context="damaged")
    done = await bash(room, "echo out; echo $((6 * 7)); false; echo err >&2", context="damaged")
    assert done.stdout == "out\n42\n", done
    assert done.stderr.endswith("err\n")
    done = await room.interrupt("echo go; while :; do :; done", "bash", context="damaged", grace=5.0)
    assert (done.status, done.fields["state_survived"]) == ("interrupted", True)
    await room.host.ask("context.remove", context="damaged")


async def test_an_interrupt_that_comes_after_the_cell_does_not_break_the_next(room: Room) -> None:
    await bash(room, "rm -f over sent; mkfifo over sent; (: < over; kill -INT $$; : > sent) &", context="late")
    await bash(room, ": > over; : < sent", context="watcher")
    done = await bash(room, "echo in full; echo again", context="late")
    assert (done.stdout, done.fields["exit_code"]) == ("in full\nagain\n", 0)


async def test_bytes_of_any_kind_pass_in_and_out(room: Room) -> None:
    done = await bash(room, "printf '%s' 'é😀'; printf '\\377' | od -An -tx1")
    assert done.stdout == "é😀 ff\n"


async def test_code_with_nul_is_refused(room: Room) -> None:
    assert await (await room.start("echo a\0b", "bash")).refusal() == "bad_request"
    assert (await bash(room, "echo fine")).stdout == "fine\n"


async def test_long_code_works(room: Room) -> None:
    lines = "\n".join(f"n=$(({number} + 1))" for number in range(20_000))
    assert (await bash(room, f"{lines}\necho $n")).stdout == "20000\n"


@pytest.mark.parametrize(
    "forgery", ["printf 'x\\0' >&$fd", "printf '7 0 0 \\0' >&$fd", "head -c 1000000 /dev/zero | tr '\\0' x >&$fd"]
)
async def test_a_forged_record_costs_the_shell_and_nothing_else(room: Room, forgery: str) -> None:
    done = await bash(room, f"fd=$__dayfly_fd; {forgery}; sleep 30", context="forger")
    assert done.status == "died"
    assert "broke the protocol" in done.error["value"]
    assert (await bash(room, "echo fine", context="forger")).stdout == "fine\n"


async def test_background_jobs_run_on_between_runs(room: Room) -> None:
    await bash(room, "rm -f over; mkfifo over; (: < over; echo late > late.txt) &")
    assert (await bash(room, ": > over; wait; cat late.txt")).stdout == "late\n"
