"""What a cell holds is read from the right files, also when the sentry replaces them, as it does in a restore."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.boundaries.gvisor.meter import Meter, SentryGone
from dayfly.limits import MIB

SENTRY = """
import os, sys
def memory(size):
    fd = os.memfd_create("runsc-memory")
    os.posix_fallocate(fd, 0, size << 20)
    return fd
def turn():
    print("ready", flush=True)
    return sys.stdin.readline()
disk = os.open(sys.argv[1] + "/runsc-filestore-1", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(disk, 0, 1 << 20)
first = memory(64)
turn()
second = memory(128)
turn()
os.dup2(os.open("/dev/null", os.O_RDONLY), first)
turn()
os.close(first)
os.posix_fallocate(disk, 0, 3 << 20)
turn()
"""
"""A process with the files of a sentry: one for memory; two; the first one's number is another file's; is nobody's."""


@pytest.fixture
def sentry(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SENTRY, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def turn(sentry: subprocess.Popen[str], *, first: bool = False) -> None:
    assert sentry.stdin is not None
    assert sentry.stdout is not None
    if not first:
        sentry.stdin.write("\n")
        sentry.stdin.flush()
    assert sentry.stdout.readline() == "ready\n"


def test_files_that_are_replaced_are_still_measured(sentry: subprocess.Popen[str]) -> None:
    turn(sentry, first=True)
    meter = Meter(sentry.pid, None)
    held = [meter.sample() for _ in range(3)]
    assert all(64 * MIB <= one.memory < 100 * MIB and one.disk == 1 * MIB for one in held), held
    turn(sentry)
    held = [meter.sample() for _ in range(5)]  # looked for anew at some of them
    assert held[-1].memory >= 192 * MIB
    turn(sentry)
    assert 128 * MIB <= meter.sample().memory < 164 * MIB, "at once: the number is another file's"
    turn(sentry)
    assert meter.sample().disk == 3 * MIB
    assert 128 * MIB <= meter.sample().memory < 164 * MIB
    meter.close()


def test_a_process_that_has_ended_is_gone_and_not_empty(sentry: subprocess.Popen[str]) -> None:
    turn(sentry, first=True)
    meter = Meter(sentry.pid, None)
    meter.sample()
    sentry.kill()
    sentry.wait()
    with pytest.raises(SentryGone):
        meter.sample()
    meter.close()
