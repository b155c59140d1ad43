"""One run of a command: bounded in time and in what it says, whatever it does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dayfly.prove.targets.running import MOST_OUTPUT, Output, run

PATIENT = 60.0
"""Seconds that nothing here takes."""


def ran(script: str, program: bytes = b"", seconds: float = PATIENT) -> Output:
    return asyncio.run(run(["sh", "-c", script], program, seconds, dict(os.environ)))


def test_the_program_goes_in_and_what_it_says_comes_out() -> None:
    assert ran("cat; echo trouble >&2; exit 3", b"hello\n") == Output("hello\n", "trouble\n")


@pytest.mark.parametrize("stream", ["1", "2"])
def test_who_says_too_much_is_ended(stream: str) -> None:
    said = ran(f"exec >&{stream}; while :; do echo nothing but words and more of them; done")
    assert said.why == f"it said more than {MOST_OUTPUT} bytes"
    assert len(said.stdout) + len(said.stderr) <= 2 * MOST_OUTPUT


def test_who_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    said = ran(
        f"read -r forever <{tmp_path}/nothing & echo $! >{tmp_path}/child; mkfifo {tmp_path}/fifo; cat {tmp_path}/fifo",
        seconds=1,
    )
    assert said.why == "it was not done in 1 s"


def test_one_that_does_not_listen_is_no_failure() -> None:
    assert ran("exec <&-; echo done", bytes(1 << 20)).stdout == "done\n"


def test_one_that_is_not_there_says_so() -> None:
    said = asyncio.run(run(["/nowhere/at-all"], b"", PATIENT, {}))
    assert "cannot be started" in said.why


def test_what_is_no_text_is_text_all_the_same() -> None:
    assert ran(r"printf '\377\376x'").stdout.endswith("x")


def test_the_last_line_is_of_the_errors_or_else_of_the_output() -> None:
    assert Output("a\nb\n", "c\n\n").last_line() == "c"
    assert Output("a\nb\n").last_line() == "b"
    assert Output().last_line() == ""
