"""Ending runs: by asking, by force, by a cap; what dies, what stays, and what the answer says."""

from __future__ import annotations

import time

import pytest

from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

BOUND = 20.0
"""Seconds in which a stopped run must have answered on a machine that is shared; it is 0.1 to 1 s."""


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "print('go')\nimport time; time.sleep(600)"),
        ("python", "print('go')\nwhile True: pass"),
        ("python", "print('go')\nimport asyncio; await asyncio.sleep(600)"),
        ("python", "print('go')\nimport subprocess; subprocess.run(['sleep', '600'])"),
        ("python", "print('go')\n!sleep 600"),
        ("python", "print('go')\nclass Slow:\n    def __repr__(self):\n        while True: pass\nSlow()"),
        ("python", "print('go')\nimport threading; threading.Event().wait()"),
        ("bash", "echo go; while :; do :; done"),
        ("bash", "echo go; sleep 600"),
        ("bash", "f() { while :; do sleep 0.01; done; }; echo go; f; echo not reached"),
        ("bash", "echo go; sleep 600 | cat; echo not reached"),
        ("bash", "echo go; x=$(sleep 600); echo not reached"),
        ("bash", "(echo go; while :; do :; done); echo not reached"),
        ("javascript", "console.log('go'); while (true) {}"),
        ("javascript", "setTimeout(() => console.log('go'), 50); await new Promise(() => {})"),
        ("javascript", "console.log('go'); for (;;) { try { for (;;); } catch {} }"),
        ("javascript", "console.log('go'); require('child_process').execSync('sleep 600')"),
    ],
)
async def test_an_interrupt_ends_the_run_and_keeps_the_state(room: Room, language: str, code: str) -> None:
    setting, getting = {
        "python": ("kept = 'state'", "print(kept)"),
        "bash": ("kept=state", "echo $kept"),
        "javascript": ("globalThis.kept = 'state'", "console.log(kept)"),
    }[language]
    await room.run(setting, language)
    done = await room.interrupt(code, language, grace=5.0)
    assert (done.status, done.fields["state_survived"]) == ("interrupted", True), done
    assert "not reached" not in done.stdout
    assert (await room.run(getting, language)).stdout == "state\n"


@pytest.mark.parametrize(
    ("command", "grace"),
    [
        ("trap : INT; echo go; sleep 600; sleep 600", 1.0),  # the second is born after the interrupt
        ("trap '' INT; echo go; sleep 600", 0.2),
    ],
)
async def test_javascript_that_waits_for_what_missed_the_interrupt_keeps_its_state(
    room: Room, command: str, grace: float
) -> None:
    # A context of its own: an interrupt amid the first require() leaves a module in pieces.
    own = {"language": "javascript", "context": "waits"}
    for _ in range(5):  # a second SIGINT as it breaks off would end node, now and then
        await room.run("globalThis.kept = 'state'", **own)
        call = f"require('child_process').execSync({command!r}, {{ stdio: ['ignore', 1, 1] }})"
        done = await room.interrupt(f"{call}; console.log('not reached')", grace=grace, **own)
        assert (done.status, done.fields["state_survived"]) == ("interrupted", True), done
        assert "not reached" not in done.stdout
        assert (await room.run("console.log(kept)", **own)).stdout == "state\n"


async def test_code_that_swallows_the_interrupt_and_goes_on_is_interrupted_too(room: Room) -> None:
    code = "import time\ntry:\n    print('go')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    pass\n'swallowed'"
    done = await room.interrupt(code)
    assert (done.status, done.text) == ("interrupted", "'swallowed'")


async def test_an_interrupt_that_nobody_asked_for_is_an_error_like_others(room: Room) -> None:
    done = await room.run("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)")
    assert (done.status, done.error["name"]) == ("error", "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nwhile True: pass"),
        (
            "python",
            "import signal, time\nsignal.signal(signal.SIGINT, lambda *_: None)\nprint('go')\nwhile True: time.sleep(1)",
        ),
        (
            "python",
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nprint('go')\nwhile True: pass",
        ),
        (
            "python",
            "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: signal.pause()",
        ),
        ("bash", "trap '' INT; echo go; while :; do :; done"),
        ("javascript", "await null; require('fs').writeSync(1, 'go'); while (true) {}"),
    ],
)
async def test_code_that_ignores_the_interrupt_is_killed_and_the_next_run_works(
    room: Room, language: str, code: str
) -> None:
    begun = time.monotonic()
    done = await room.interrupt(code, language, grace=0.2, context=f"deaf {language}")
    assert (done.status, done.fields["state_survived"]) == ("interrupted", False), done
    assert time.monotonic() - begun < BOUND
    answer = {"python": "print(1)", "bash": "echo 1", "javascript": "console.log(1)"}[language]
    assert (await room.run(answer, language, context=f"deaf {language}")).stdout == "1\n"
    await room.host.ask("context.remove", context=f"deaf {language}")


DAEMON = (
    "import os, time\n"
    "seen, tell = os.pipe()\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.write(tell, str(os.getpid()).encode())\n"
    "        os.execvp('python3', ['{name}', '-c', 'import signal, time\\nsignal.signal(2, signal.SIG_IGN)\\ntime.sleep(600)'])\n"
    "    os._exit(0)\n"
    "os.close(tell)\n"
    "daemon = int(os.read(seen, 20))\n"
    "os.read(seen, 1)\n"  # ends with exec, which closes the last copy
    "print(open(f'/proc/{{daemon}}/cmdline').read())\n"
)
"""Code that starts a daemon and prints its name when it is up."""


async def test_a_grandchild_in_its_own_session_dies_with_its_run(room: Room) -> None:
    code = DAEMON.format(name="daemon-of-the-run") + "print('go'); time.sleep(600)"
    done = await room.interrupt(code)
    assert "daemon-of-the-run" in done.stdout
    assert (done.status, done.fields["state_survived"]) == ("interrupted", True)
    assert not await room.alive("daemon-of-the-run")


async def test_what_an_earlier_run_left_running_stays_when_a_later_one_is_interrupted(room: Room) -> None:
    assert "older-daemon" in (await room.run(DAEMON.format(name="older-daemon"))).stdout
    done = await room.interrupt("print('go'); time.sleep(600)")
    assert done.status == "interrupted"
    assert await room.alive("older-daemon")
    await room.host.ask("context.remove", context="python")
    assert not await room.alive("older-daemon")


async def test_what_a_run_that_killed_its_kernel_had_started_dies_too(room: Room) -> None:
    code = DAEMON.format(name="orphan") + "import sys; sys.stdout.flush(); os._exit(7)"
    done = await room.run(code, context="fatal")
    assert "orphan" in done.stdout
    assert (done.status, done.fields["exit_code"]) == ("died", 7)
    assert not await room.alive("orphan")


async def test_a_run_that_ended_by_itself_leaves_its_background_processes(room: Room) -> None:
    await room.run("import subprocess\nserver = subprocess.Popen(['sleep', '601'])")
    assert await room.value("server.poll()") is None
    await room.run("server.kill(); server.wait()")


async def test_a_run_beyond_its_cpu_time_is_ended_and_the_limit_named(room: Room) -> None:
    done = await room.run("while True: pass", cpu=0.3)
    assert (done.status, done.fields["limit"], done.fields["state_survived"]) == ("cpu_limit", "run_cpu_seconds", True)
    assert 0.3 < done.fields["cpu_seconds"] < BOUND


async def test_the_cpu_of_processes_that_the_run_started_counts(room: Room) -> None:
    code = "import subprocess\nsubprocess.run(['python3', '-c', 'while True: pass'])"
    assert (await room.run(code, cpu=0.5)).status == "cpu_limit"


async def test_the_cpu_of_an_earlier_run_does_not_count(room: Room) -> None:
    await room.run(
        "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass", context="busy"
    )
    done = await room.run("import time; time.sleep(0.5)", cpu=0.4, context="busy")
    assert done.status == "ok"
    assert done.fields["cpu_seconds"] < 0.3


async def test_sleeping_uses_no_cpu_time(room: Room) -> None:
    done = await room.run("import time; time.sleep(1)")
    assert done.fields["cpu_seconds"] < 0.5


async def test_a_run_that_waits_in_the_queue_can_be_interrupted(room: Room) -> None:
    first = await room.start("print('go'); import time; time.sleep(600)")
    await first.output(b"go")
    second = await room.start("print('never')")
    await second.tell("interrupt", grace=0.2)
    done = await room.end(second)
    assert (done.status, done.stdout, done.fields["state_survived"]) == ("interrupted", "", True)
    await first.cancel()
    assert (await room.end(first)).status == "interrupted"


async def test_a_cancelled_run_is_ended_and_answered(room: Room) -> None:
    call = await room.start("print('go')\nwhile True: print('x' * 1000)", output=1 << 30)
    await call.output(b"go")
    call.reading = False
    await call.cancel()
    assert (await call.result())["status"] == "interrupted"
    assert await room.value("6 * 7") == "42"


async def test_a_second_interrupt_changes_nothing(room: Room) -> None:
    call = await room.start("print('go'); import time; time.sleep(600)")
    await call.output(b"go")
    await call.tell("interrupt", grace=1.0)
    await call.tell("interrupt", grace=1.0)
    assert (await room.end(call)).status == "interrupted"
    assert await room.value("6 * 7") == "42"
