"""Reading /proc, whatever processes write into their names."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dayfly.agent import census
from dayfly.agent.child import exit_fields

STATUS = b"""Name:\t%s
State:\tS (sleeping)
Tgid:\t7
Uid:\t1000\t1000\t1000\t1000
Gid:\t1000\t1000\t1000\t1000
FDSize:\t512
Groups:\t1000 100007\x20
VmSize:\t22012 kB
"""
STAT = b"7 (%s) S 3 7 7 0 -1 0 0 0 0 0 250 50 100 0 20 0 1 0 4242 1000 25 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"

names = st.binary(max_size=15).filter(lambda name: b"\0" not in name)  # what prctl takes


@given(names)
def test_no_name_hides_who_a_process_belongs_to(name: bytes) -> None:
    files = {"/proc/7/status": STATUS % name, "/proc/7/stat": STAT % name}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census, "read", lambda path: files.get(path, b""))
        process = census.look(7)
        assert process is not None
        assert (process.uid, process.tag, process.alive) == (1000, 100007, True)
        assert (process.parent, process.cpu, process.rss, process.started) == (3, 4.0, 25 * census.PAGE, 4242)


@pytest.mark.parametrize(
    "name", [b"x\nGroups:\t1", b"x\nUid:\t0", b"x\nState:\tZ", b"a) Z 1 (b", b"\n\n\n", b"(", b")", b") S 1"]
)
def test_forged_lines_in_a_name_change_nothing(name: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/proc/7/status": STATUS % name, "/proc/7/stat": STAT % name}
    monkeypatch.setattr(census, "read", lambda path: files.get(path, b""))
    process = census.look(7)
    assert process is not None
    assert (process.uid, process.tag, process.alive, process.parent) == (1000, 100007, True, 3)


noise = st.binary(max_size=20).filter(lambda part: b"\n" not in part and b":" not in part)


@given(st.lists(st.sampled_from(STATUS.splitlines()) | noise, max_size=8))
@example([b"Uid:\t1000\t1000\t1000\t1000", b"State:\tS (sleeping)", b"Groups"])
def test_a_status_is_somebodys_only_if_it_says_whose_and_in_what_state(lines: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census, "read", lambda path: b"\n".join([b"Name:\tx", *lines]))
        process = census.look(7)
    named = {line.partition(b":")[0] for line in lines if b":" in line}
    assert (process is not None) == ({b"Uid", b"State"} <= named)
    if process is not None:
        assert (process.pid, process.uid, process.alive) == (7, 1000, True)
        assert process.tag == (100007 if b"Groups" in named else 0)


def test_a_process_that_is_gone_is_nobody() -> None:
    assert census.look(1 << 29) is None
    gone = census.Process(1 << 29, 0, 0, True)
    assert (gone.cpu, gone.rss, gone.started, gone.parent) == (0.0, 0, 0, 0)


def test_children_are_found_by_descent() -> None:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        if grandchild := os.fork():
            os.write(write_end, b"%d" % grandchild)
        signal.pause()
    grandchild = int(os.read(read_end, 20))
    found = {one.pid for one in census.descendants({child}, {child})}
    for pid in (grandchild, child):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(child, 0)
    assert {child, grandchild} <= found


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (None, {"exit_code": None, "signal": None}),
        (0, {"exit_code": 0, "signal": None}),
        (255 << 8, {"exit_code": 255, "signal": None}),
        (9, {"exit_code": None, "signal": 9}),
        (11 | 0x80, {"exit_code": None, "signal": 11}),
    ],
)
def test_a_wait_status_is_a_code_or_a_signal(status: int | None, fields: dict[str, int | None]) -> None:
    assert exit_fields(status) == fields
