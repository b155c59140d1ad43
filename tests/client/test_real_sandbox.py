"""The client over real gVisor, embedded and over a URL: what a person does with it, end to end."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dayfly import (
    AsyncSandbox,
    BusyError,
    CannotStart,
    Change,
    EndReason,
    FileKind,
    InputError,
    Outcome,
    Output,
    PortRefused,
    Sandbox,
    SandboxEnded,
    UnknownLanguage,
)
from tests.machine import image

pytestmark = [pytest.mark.gvisor, pytest.mark.usefixtures("over")]


@pytest.fixture(scope="module", autouse=True)
def smallest() -> None:
    image("tiny")


@pytest.fixture(scope="module")
def room(over: str) -> Iterator[Sandbox]:
    """One sandbox for the tests that leave it usable."""
    with Sandbox(image="python", env={"GREETING": "hello"}) as sandbox:
        yield sandbox


def test_variables_stay_and_the_last_value_is_the_result(room: Sandbox) -> None:
    assert room.run_code("number = 41").ok
    execution = room.run_code("print('out'); number + 1")
    assert (execution.stdout, execution.text) == ("out\n", "42")
    assert room.run_code("number", context="another").error is not None
    assert {context.name for context in room.contexts.list()} >= {"python", "another"}
    room.contexts.remove("another")


def test_output_streams_while_the_code_runs(room: Sandbox) -> None:
    go = threading.Event()
    seen: list[str] = []

    def on_stdout(text: str) -> None:
        seen.append(text)
        if not go.is_set():
            go.set()
            room.commands.run(": > go")  # opening a FIFO waits for whoever opens its other end

    code = "import os\nos.mkfifo('go')\nprint('ready', flush=True)\nopen('go').close()\nos.remove('go')\nprint('done')"
    assert room.run_code(code, on_stdout=on_stdout, timeout=20).ok
    assert go.is_set()
    assert "".join(seen) == "ready\ndone\n"


def test_an_exception_is_in_the_execution_and_not_raised(room: Sandbox) -> None:
    execution = room.run_code("1 / 0")
    assert execution.outcome is Outcome.ERROR
    assert execution.error is not None
    assert execution.error.name == "ZeroDivisionError"
    assert "\x1b" not in execution.error.traceback


def test_how_a_run_ended_is_told_in_words(room: Sandbox) -> None:
    assert room.run_code("import time", context="words").ok  # so that nothing has to start in half a second
    slow = room.run_code("time.sleep(60)", timeout=0.5, context="words")
    assert slow.duration >= 0.5
    over = "when its time was over (timeout= or limits.run_seconds); variables are kept"
    assert slow.explanation == f"stopped after {slow.duration:.3g} s, {over}"
    dead = room.run_code("import os; os._exit(7)", context="words")
    assert dead.explanation == "the interpreter ended with exit code 7; variables are lost"
    assert room.run_code("1 / 0", context="words").explanation == "raised ZeroDivisionError: division by zero"
    room.contexts.remove("words")


def test_an_unknown_language_is_refused(room: Sandbox) -> None:
    with pytest.raises(UnknownLanguage, match="this image has python, bash"):
        room.run_code("1", language="cobol")
    assert "bash" in room.languages
    assert room.run_code("echo $GREETING", language="bash").stdout == "hello\n"


def test_a_callback_that_raises_stops_the_code_inside(room: Sandbox) -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="one"):
        room.run_code("print('one', flush=True)\nwhile True: pass", on_stdout=fail, timeout=30)
    assert room.run_code("'alive'").text == "'alive'"


def test_ctrl_c_interrupts_the_code_inside_and_the_state_stays(
    room: Sandbox, press_ctrl_c_when: Callable[[threading.Event], None]
) -> None:
    begun = threading.Event()
    press_ctrl_c_when(begun)
    room.run_code("kept = 7")
    with pytest.raises(KeyboardInterrupt):
        room.run_code("print('begun', flush=True)\nwhile True: pass", on_stdout=lambda _: begun.set(), timeout=30)
    assert room.run_code("kept").text == "7"


def test_commands_tell_their_exit_code_or_signal(room: Sandbox) -> None:
    assert room.commands.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).exit_code == 3
    assert room.commands.run("kill -TERM $$").signal == signal.SIGTERM
    assert room.commands.run(["cat"], input="piped").text == "piped"
    assert room.commands.run("pwd; echo $X", cwd="/tmp", env={"X": "y"}).text == "/tmp\ny\n"
    assert room.commands.run("sleep 60", timeout=0.5).outcome is Outcome.TIMEOUT
    with pytest.raises(CannotStart):
        room.commands.run(["no-such-program"])


def test_a_process_is_talked_to_while_it_runs(room: Sandbox) -> None:
    with room.commands.start(["cat"]) as process:
        output = process.output()
        process.write_stdin("one\n")
        assert next(output) == Output("stdout", b"one\n")
        process.close_stdin()
        assert list(output) == []
        assert process.wait().exit_code == 0


def test_a_detached_process_is_found_again(room: Sandbox) -> None:
    process = room.commands.start("echo here; exec sleep 60", detached=True)
    pid = process.pid
    assert next(process.output()).data == b"here\n"
    process.detach()
    assert [info.running for info in room.commands.list() if info.pid == pid] == [True]
    again = room.commands.connect(pid)
    assert next(again.output()).data == b"here\n"
    room.commands.send_signal(pid, signal.SIGKILL)
    assert again.wait().signal == signal.SIGKILL


def test_a_terminal_has_the_size_that_was_asked_for(room: Sandbox) -> None:
    with room.commands.start(["stty", "size"], pty=(40, 120)) as process:
        assert b"".join(item.data for item in process.output()).split() == [b"40", b"120"]


def test_files_are_written_read_listed_and_removed(room: Sandbox, tmp_path: Path) -> None:
    files = room.files
    assert files.write("d/a.txt", "text") == 4
    files.append("d/a.txt", b"\xff")
    assert files.read("d/a.txt") == b"text\xff"
    assert files.read_text("d/a.txt") == "text\ufffd"
    assert b"".join(files.stream("d/a.txt", offset=1, length=3)) == b"ext"
    assert files.stat("d/a.txt").size == 5
    assert files.mkdir("d/sub")
    assert [(info.name, info.kind) for info in files.list("d")] == [
        ("a.txt", FileKind.FILE),
        ("sub", FileKind.DIRECTORY),
    ]
    files.rename("d/a.txt", "d/b.txt")
    assert not files.exists("d/a.txt")
    assert files.download("d/b.txt", tmp_path) == 5
    assert files.upload(tmp_path / "b.txt", "d/c.txt") == 5
    assert files.remove("d", recursive=True) == 4
    assert room.run_code("open('from_code', 'w').write('x')").ok
    assert files.read("from_code") == b"x"


def test_a_name_of_any_bytes_is_the_same_inside(room: Sandbox) -> None:
    room.files.write(b"caf\xe9\n", b"1")
    assert "caf\udce9\n" in [info.name for info in room.files.list()]
    assert room.run_code("import os; [n for n in os.listdir(b'.') if n.startswith(b'caf')]").text == "[b'caf\\xe9\\n']"


def test_directories_go_both_ways(room: Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data").write_bytes(os.urandom(300_000))
    (source / "tool").write_text("#!/bin/sh\necho works\n")
    (source / "tool").chmod(0o755)
    (source / "link").symlink_to("sub/data")
    os.mkdir(os.fsencode(source) + b"/caf\xe9")
    assert room.files.upload_directory(source, "there") == 5
    assert room.commands.run(["./there/tool"]).text == "works\n"
    assert room.files.download_directory("there", tmp_path / "back") == 5
    assert (tmp_path / "back" / "link").read_bytes() == (source / "sub" / "data").read_bytes()
    assert stat.S_IMODE((tmp_path / "back" / "tool").stat().st_mode) == 0o755
    assert (tmp_path / "back" / os.fsdecode(b"caf\xe9")).is_dir()


def test_a_watch_sees_what_code_does_to_files(room: Sandbox) -> None:
    room.files.mkdir("watched")
    with room.files.watch("watched") as changes:
        room.run_code("open('watched/new', 'w').close()")
        assert changes.next() == Change("created", "/home/user/watched/new")
        room.files.write("watched/whole", b"1")
        assert changes.next() == Change("created", "/home/user/watched/whole")
        room.files.write("watched/whole", b"2")
        assert changes.next() == Change("modified", "/home/user/watched/whole")
        room.files.write("watched/own", b"2", exclusive=True)
        assert changes.next() == Change("created", "/home/user/watched/own")


def test_a_server_inside_is_reached_through_its_port(room: Sandbox) -> None:
    code = """
        import socket, threading
        server = socket.create_server(("127.0.0.1", 8000))
        def serve():
            peer, _ = server.accept()
            peer.sendall(peer.recv(100).upper())
            peer.close()
        threading.Thread(target=serve, daemon=True).start()
    """
    import textwrap

    assert room.run_code(textwrap.dedent(code)).ok
    with room.connect_port(8000) as port:
        port.write(b"ping")
        assert port.read() == b"PING"
        assert port.read() == b""
    with pytest.raises(PortRefused):
        room.connect_port(8001)


def test_what_this_machine_keeps_of_the_limits_is_told(room: Sandbox) -> None:
    assert {limit.name for limit in room.limits} >= {"memory", "cpus", "processes", "disk", "run_seconds"}
    assert room.run_code("1").limits == room.limits
    assert (room.usage.memory or 0) > 0
    assert room.explain()["boundary"] == "gvisor"


async def test_the_async_sandbox_does_the_same() -> None:
    async with AsyncSandbox(image="tiny") as sandbox:
        runs = [sandbox.run_code("import time; time.sleep(0.2); 1", context=name) for name in ("a", "b")]
        assert [run.text for run in await asyncio.gather(*runs)] == ["1", "1"]
        task = asyncio.ensure_future(sandbox.run_code("while True: pass", timeout=30))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.close()
        assert sandbox.end_reason is EndReason.STOPPED
        with pytest.raises(SandboxEnded):
            await sandbox.run_code("1")


def test_a_forked_child_neither_uses_nor_ends_the_parents_sandbox() -> None:
    script = """
import os, sys, warnings
warnings.simplefilter("ignore")
from dayfly import InputError, Sandbox
with Sandbox(image="tiny") as sandbox:
    sandbox.run_code("x = 1")
    for how in ("exit", "kill"):
        if (child := os.fork()) == 0:
            try:
                sandbox.run_code("x")
            except InputError:
                with Sandbox(image="tiny") as own:
                    if own.run_code("2").text == "2":
                        sys.exit(7) if how == "exit" else os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, how
    assert sandbox.run_code("x").text == "1"
print("well")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("well\n", "", 0)


# --- pauses and forks -------------------------------------------------------------------------------------------------


def test_a_paused_sandbox_goes_on_with_its_memory_and_its_files() -> None:
    with Sandbox(image="tiny") as sandbox:
        files = sandbox.files
        sandbox.run_code("number = 41; import threading; lock = threading.Lock()")
        sandbox.run_code("kept=1", language="bash")
        files.write("note", b"here")
        sandbox.pause()
        assert sandbox.end_reason is EndReason.PAUSED
        for call in (lambda: sandbox.run_code("1"), lambda: files.read("note"), lambda: sandbox.fork()):
            with pytest.raises(SandboxEnded, match="is paused") as told:
                call()
            assert told.value.reason == "paused"
        ident = sandbox.id
        sandbox.pause()
        for _ in range(2):
            sandbox.resume()
        assert (sandbox.id, sandbox.end_reason) == (ident, None)
        assert sandbox.run_code("number + 1").text == "42"
        assert sandbox.run_code("echo $kept", language="bash").stdout == "1\n"
        assert files.read("note") == b"here", "also with what was there before"
        assert sandbox.usage.cpu_seconds


def test_copies_go_on_from_where_it_is_and_then_their_own_way() -> None:
    with Sandbox(image="tiny") as sandbox:
        sandbox.run_code("import uuid; number = 41; open('note', 'w').write('same')")
        copies = sandbox.fork(2)
        rooms = [sandbox, *copies]
        assert len({one.id for one in rooms}) == 3
        for addend, one in enumerate(rooms):
            assert one.run_code(f"number += {addend}; number").text == str(41 + addend)
            one.files.append("note", str(addend).encode())
        assert [one.files.read("note") for one in rooms] == [b"same0", b"same1", b"same2"]
        assert len({one.run_code("uuid.uuid4()").text for one in rooms}) == 3
        copies[0].close()
        assert sandbox.run_code("number").text == "41"
        copies[1].close()
        assert {one.end_reason for one in copies} == {EndReason.STOPPED}


def test_a_paused_one_that_is_closed_is_gone_and_one_that_is_busy_cannot_be_paused() -> None:
    with Sandbox(image="tiny") as sandbox:
        for wrong in (0, -1, float("nan"), "long", True):
            with pytest.raises(InputError):
                sandbox.pause(wrong)  # type: ignore[arg-type]
        with sandbox.commands.start(["sleep", "100"]), pytest.raises(BusyError):
            sandbox.pause()
        sandbox.pause()
        sandbox.close()
        with pytest.raises((InputError, SandboxEnded)):
            sandbox.resume()
