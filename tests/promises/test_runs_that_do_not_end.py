"""A run that does not end by itself is ended: the caller has the answer within timeout + 1 s and the next run works."""

from __future__ import annotations

import time

import pytest

from dayfly import Execution, Outcome, Sandbox

TIMEOUT = 0.5
MARK = "ps = __import__('glob').glob('/proc/[0-9]*/cmdline')\nsum(b'mark' in open(p,'rb').read() for p in ps if __import__('os').path.exists(p))"


def timed_out(sandbox: Sandbox, code: str, language: str = "python", timeout: float = TIMEOUT) -> Execution:
    begun = time.monotonic()
    done = sandbox.run_code(code, language=language, timeout=timeout)
    took = time.monotonic() - begun
    assert done.outcome is Outcome.TIMEOUT, done
    assert done.limit == "run_seconds"
    assert done.end_reason is None, done
    assert took <= timeout + 1.0, f"{took:.2f} s"
    return done


def works(sandbox: Sandbox) -> None:
    assert sandbox.run_code("6 * 7").text == "42"


def test_an_endless_loop_is_interrupted_and_keeps_its_variables(survivor: Sandbox) -> None:
    survivor.run_code("kept = 5")
    done = timed_out(survivor, "while True: pass")
    assert done.state_survived
    assert survivor.run_code("kept").text == "5"


def test_arithmetic_beyond_all_bounds_is_ended_and_the_answer_says_whether_state_survived(survivor: Sandbox) -> None:
    survivor.run_code("kept = 5")
    done = timed_out(survivor, "x = 10 ** 10 ** 9")
    works(survivor)
    assert survivor.run_code("kept").ok is done.state_survived


def test_a_loop_that_no_signal_can_interrupt_costs_the_kernel_and_says_so(survivor: Sandbox) -> None:
    survivor.run_code("lost = 5")
    done = timed_out(survivor, "x = sum(range(10 ** 12))")
    assert not done.state_survived
    works(survivor)
    error = survivor.run_code("lost").error
    assert error is not None
    assert error.name == "NameError"


def test_code_that_ignores_every_signal_is_killed(survivor: Sandbox) -> None:
    code = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
    assert not timed_out(survivor, code).state_survived
    works(survivor)


def test_code_that_swallows_the_interrupt_is_killed(survivor: Sandbox) -> None:
    timed_out(survivor, "while True:\n    try:\n        while True: pass\n    except BaseException: pass")
    works(survivor)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('python3', ['python3', '-c', 'import time; time.sleep(300)', 'mark'])
    os._exit(0)
while not any(b'mark' in open(p, 'rb').read() for p in __import__('glob').glob('/proc/[0-9]*/cmdline') if os.path.exists(p)): pass
"""


def test_a_grandchild_in_its_own_session_that_holds_stdout_does_not_hold_the_answer(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    done = sandbox.run_code(DAEMON + "print('done')", timeout=30)
    assert done.ok
    assert done.stdout == "done\n"
    assert time.monotonic() - begun < 5


def test_a_grandchild_in_its_own_session_dies_with_the_run_that_times_out(sandbox: Sandbox) -> None:
    timed_out(sandbox, DAEMON + "while True: pass", timeout=1.0)  # long enough for the daemon to be there
    assert sandbox.run_code(MARK).text == "0"


def test_the_control_a_grandchild_of_a_run_that_ends_well_is_found(sandbox: Sandbox) -> None:
    assert sandbox.run_code(DAEMON).ok
    assert sandbox.run_code(MARK).text == "1"


@pytest.mark.parametrize(
    ("language", "code"),
    [("bash", "while :; do :; done"), ("bash", "trap '' INT TERM; sleep 100"), ("javascript", "while (true) {}")],
)
def test_other_languages_are_ended_too(language: str, code: str, survivor: Sandbox) -> None:
    timed_out(survivor, code, language)
    works(survivor)
    done = survivor.run_code({"bash": "echo $((1+1))", "javascript": "1+1"}[language], language=language)
    assert (done.text or done.stdout.strip()) == "2", done


def test_a_command_is_ended_with_all_it_started(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    done = sandbox.commands.run(
        "trap '' TERM; (setsid sleep 300 mark &) ; python3 -c 'import time; time.sleep(300)' mark", timeout=TIMEOUT
    )
    assert done.outcome is Outcome.TIMEOUT
    assert time.monotonic() - begun <= TIMEOUT + 1.0
    assert sandbox.run_code(MARK).text == "0"
    works(sandbox)


def test_cpu_time_of_a_run_is_capped_whatever_the_clock_says() -> None:
    with Sandbox({"limits": {"run_cpu_seconds": 1}}) as sandbox:
        done = sandbox.run_code("while True: pass", timeout=30)
        assert done.outcome is Outcome.CPU_LIMIT
        assert done.limit == "run_cpu_seconds"
        assert done.duration < 10
        works(sandbox)


def test_cpu_time_of_the_sandbox_is_capped() -> None:
    with Sandbox({"limits": {"cpu_seconds": 2}}) as sandbox:
        done = sandbox.run_code("while True: pass", timeout=30)
        assert done.end_reason == "cpu_limit"
        assert done.limit == "cpu_seconds"
