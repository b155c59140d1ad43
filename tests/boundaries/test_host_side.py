"""The pieces on the host that keep a cell's promises: leases, the watcher's thread, the spawner, bound CPUs."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.boundaries import forks
from dayfly.boundaries.gvisor import cpus, watcher
from dayfly.boundaries.gvisor import footprint as gvisor_footprint
from dayfly.boundaries.gvisor.abilities import FIRST_UID, UIDS
from dayfly.boundaries.gvisor.cgroups import CellCgroup
from dayfly.boundaries.gvisor.command import LAUNCHER
from dayfly.boundaries.gvisor.directory import CellDirectory, Record, abandoned
from dayfly.boundaries.gvisor.footprint import Footprint
from dayfly.boundaries.gvisor.layout import Layout
from dayfly.boundaries.gvisor.sweep import sweep
from dayfly.boundaries.processes import (
    Child,
    Held,
    Program,
    children,
    in_spawner,
    own,
    signal_process,
    start_ticks,
    wait_gone,
)
from dayfly.boundaries.stderr import SIZE, Stderr, last_words
from dayfly.errors import HostError
from tests.boundaries.exhaustion import none_left

ROOT = os.geteuid() == 0


# --- directories and leases -------------------------------------------------------------------------------------------


@pytest.fixture
def cells(data: Path) -> Path:
    return data / "cells"


def test_a_directory_with_a_living_owner_is_never_abandoned(cells: Path) -> None:
    directory = CellDirectory.create(Layout(cells / "one"), foreign=ROOT)
    assert list(abandoned(cells)) == []
    directory.remove()
    directory.remove()
    assert list(cells.iterdir()) == []


def test_a_directory_whose_owner_died_is_abandoned_once(cells: Path) -> None:
    script = f"""
import os, sys
from pathlib import Path
from dayfly.boundaries.gvisor.command import LAUNCHER
from dayfly.boundaries.gvisor.directory import CellDirectory
from dayfly.boundaries.gvisor.layout import Layout
CellDirectory.create(Layout(Path({str(cells / "dead")!r})), foreign=False).note(pid=1)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    (found,) = abandoned(cells)
    record = Record.read(found.layout.record)
    assert record is not None
    assert record.pid == 1
    assert list(abandoned(cells)) == [], "two sweeps took the same one"
    found.remove()
    assert list(cells.iterdir()) == []


def test_a_record_that_was_cut_short_is_no_record(cells: Path) -> None:
    directory = CellDirectory.create(Layout(cells / "one"), foreign=False)
    for text in ("", '{"boot": "x", "pi', '{"unknown": 1}', "[]"):
        directory.layout.record.write_text(text)
        assert Record.read(directory.layout.record) is None
    directory.remove()


def test_a_record_is_replaced_whole_or_not_at_all(cells: Path) -> None:
    directory = CellDirectory.create(Layout(cells / "one"), foreign=False)
    directory.note(cgroup_version=2)
    with none_left(resource.RLIMIT_FSIZE), pytest.raises(HostError):
        directory.note(pid=1)
    record = Record.read(directory.layout.record)
    assert record is not None
    assert (record.cgroup_version, record.pid) == (2, 0)
    directory.remove()


@pytest.fixture
def stuck_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CellCgroup:
    """One that cannot be removed for now, as when a process in it does not end."""
    (tmp_path / "cgroup").mkdir()
    monkeypatch.setattr(CellCgroup, "remove", lambda self, _: False)
    return CellCgroup(1, {"memory": tmp_path / "cgroup"})


def test_a_cells_directory_stays_for_sweep_when_its_cgroup_does(
    cells: Path, stuck_cgroup: CellCgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record in it is all that leads to the cgroup."""
    footprint = Footprint(CellDirectory.create(Layout(cells / "one"), foreign=False))
    footprint.directory.note(cgroup_version=1, cgroups={"memory": str(stuck_cgroup.paths["memory"])})
    footprint.cgroup = stuck_cgroup
    with pytest.raises(OSError, match="busy"):
        footprint.clear()
    monkeypatch.undo()
    assert sweep(cells) == 1, "its lease was kept, or it was removed"
    assert list(cells.iterdir()) == []
    assert not stuck_cgroup.paths["memory"].exists()


def test_a_sweep_that_cannot_remove_one_removes_the_others_and_can_be_done_again(
    cells: Path, stuck_cgroup: CellCgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cgroups in {"one": stuck_cgroup.paths, "two": {}}.items():
        directory = CellDirectory.create(Layout(cells / name), foreign=False)
        directory.note(cgroup_version=1, cgroups={key: str(path) for key, path in cgroups.items()})
        directory.leave()
    with pytest.raises(OSError, match="busy"):
        sweep(cells)
    assert [path.name for path in cells.iterdir()] == ["one"]
    monkeypatch.undo()
    assert sweep(cells) == 1
    assert not stuck_cgroup.paths["memory"].exists()


def test_every_cell_of_root_gets_a_uid_that_no_other_live_one_has(cells: Path) -> None:
    made = [CellDirectory.create(Layout(cells / str(n)), foreign=ROOT) for n in range(20)]
    if ROOT:
        uids = [directory.uid for directory in made]
        assert len(set(uids)) == 20
        assert all(uid is not None and FIRST_UID <= uid < FIRST_UID + UIDS for uid in uids)
        assert {directory.layout.cell.stat().st_gid for directory in made} == set(uids)
    for directory in made:
        directory.remove()


def test_a_data_directory_that_others_can_write_is_refused(data: Path) -> None:
    data.chmod(0o777)
    with pytest.raises(HostError):
        CellDirectory.create(Layout(data / "cells/one"), foreign=False)


def test_a_forked_child_closes_what_is_private_to_its_parent() -> None:
    read, write = os.pipe()
    forks.keep_from_children(write)
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(write)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    forks.close(write)
    assert os.read(read, 1) == b"", "a child still holds the other end"
    os.close(read)


# --- the watcher ------------------------------------------------------------------------------------------------------


def test_each_look_comes_when_it_is_due_and_the_thread_ends_with_the_last() -> None:
    looks: list[str] = []
    done = threading.Event()

    def quick() -> float | None:
        looks.append("quick")
        return 0.001 if looks.count("quick") < 20 else None

    def slow() -> float | None:
        looks.append("slow")
        if looks.count("slow") == 2:
            done.set()
            return None
        return 0.1

    watcher.watch(slow)
    watcher.watch(quick)
    assert done.wait(5)
    assert looks.count("quick") == 20
    assert looks.count("slow") == 2
    assert looks[-1] == "slow"
    for thread in threading.enumerate():
        if thread.name == "dayfly-watcher":
            thread.join(5)
            assert not thread.is_alive(), "the thread lives on without a cell"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_look_that_fails_ends_neither_the_others_nor_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"failing": 0, "other": 0}
    done = {name: threading.Event() for name in seen}

    def look(name: str) -> float | None:
        seen[name] += 1
        if seen[name] == 5:
            done[name].set()
            return None
        if name == "failing":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return 0.001

    monkeypatch.setattr(watcher, "_watcher", watcher._Watcher())
    watcher.watch(lambda: look("failing"))
    watcher.watch(lambda: look("other"))
    assert all(event.wait(5) for event in done.values()), seen


def test_looking_goes_on_while_the_main_thread_is_busy() -> None:
    seen = threading.Event()
    watcher.watch(lambda: seen.set())  # type: ignore[arg-type, return-value, func-returns-value]
    deadline = [0]
    while not seen.is_set() and deadline[0] < 50_000_000:
        deadline[0] += 1  # never gives up the processor by itself
    assert seen.is_set()


# --- the spawner ------------------------------------------------------------------------------------------------------


def program(*argv: str, cpus: frozenset[int] = frozenset(), stdout: int = 2) -> Program:
    null = os.open(os.devnull, os.O_RDWR)
    return Program(argv, null, stdout, null, {"PATH": os.defpath}, Path("/"), cpus)


@pytest.mark.parametrize(("batch", "policy"), [(True, os.SCHED_BATCH), (False, os.SCHED_OTHER)])
def test_a_child_is_scheduled_as_asked_and_the_spawner_as_before(batch: bool, policy: int) -> None:
    def start() -> tuple[Child, int]:
        return Child.start(replace(program("sleep", "1000"), batch=batch)), os.sched_getscheduler(0)

    child, spawner = in_spawner(start).result(5)
    try:
        assert (os.sched_getscheduler(child.pid), spawner) == (policy, os.SCHED_OTHER)
    finally:
        child.kill()
        assert child.wait(5)
        child.reap()


def test_a_policy_that_dayfly_was_started_with_is_kept() -> None:
    code = """
import os
from tests.boundaries.test_host_side import Child, in_spawner, program, replace
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
start = lambda: Child.start(replace(program("sleep", "1000"), batch=True))
child = in_spawner(start).result(5)
print(os.sched_getscheduler(child.pid) == os.SCHED_IDLE)
child.kill(); child.wait(5); child.reap()
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert said.stdout == "True\n"


@pytest.fixture
def sleeper() -> Iterator[Child]:
    child = in_spawner(lambda: Child.start(program("sleep", "1000"))).result(5)
    yield child
    child.kill()
    assert child.wait(5)
    child.reap()


def test_a_child_is_killed_reaped_once_and_then_left_alone(sleeper: Child) -> None:
    assert not sleeper.wait(0)
    sleeper.kill()
    assert sleeper.wait(5)
    assert sleeper.reap() == sleeper.reap() == -signal.SIGKILL
    sleeper.kill()
    assert sleeper.wait(0)
    assert start_ticks(sleeper.pid) is None


def test_a_forked_child_cannot_kill_its_parents_cells(sleeper: Child) -> None:
    pid = os.fork()
    if pid == 0:
        sleeper.kill()
        os._exit(0)
    os.waitpid(pid, 0)
    assert not sleeper.wait(0.05)


def test_a_process_is_never_mistaken_for_a_later_one_with_its_number(sleeper: Child) -> None:
    started = start_ticks(sleeper.pid)
    assert started is not None
    signal_process(sleeper.pid, started - 1, signal.SIGKILL)
    assert not wait_gone([sleeper.pid], 0.05)
    signal_process(sleeper.pid, started, signal.SIGKILL)
    assert wait_gone([sleeper.pid], 5)


def test_a_held_process_is_left_alone_after_close_and_by_a_forked_child(sleeper: Child) -> None:
    held = Held(sleeper.pid)
    pid = os.fork()
    if pid == 0:
        held.send(signal.SIGKILL)
        os._exit(0)
    os.waitpid(pid, 0)
    held.close()
    held.send(signal.SIGKILL)
    held.close()
    assert not wait_gone([sleeper.pid], 0.05)


def test_a_descriptor_is_not_closed_while_a_signal_is_sent_through_it(
    sleeper: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time of the signal it could be another process's."""
    held = Held(sleeper.pid)
    sending, closed = threading.Event(), threading.Event()
    early: list[bool] = []

    def slow(*_: object) -> None:
        sending.set()
        early.append(closed.wait(0.1))

    def close() -> None:
        held.close()
        closed.set()

    monkeypatch.setattr(signal, "pidfd_send_signal", slow)
    threads = [threading.Thread(target=held.send, args=(signal.SIGSTOP,)), threading.Thread(target=close)]
    threads[0].start()
    assert sending.wait(5)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert early == [False]
    monkeypatch.undo()


def test_a_child_that_cannot_be_held_is_neither_left_running_nor_unreaped(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = set(children(os.getpid()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)
        with pytest.raises(OSError, match="open files"):
            in_spawner(lambda: Child.start(program("sleep", "1000"))).result(5)
    assert set(children(os.getpid())) <= before


def test_a_cell_is_struck_down_where_no_descriptor_is_free(cells: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    footprint = Footprint(CellDirectory.create(Layout(cells / "one"), foreign=False))
    read, write = os.pipe()
    # Its "sentry" has a parent that does not take it along.
    script = "setsid sleep 1000 & echo; wait"
    footprint.child = in_spawner(lambda: Child.start(program("/bin/sh", "-c", script, stdout=write))).result(5)
    assert os.read(read, 1) == b"\n"
    (sentry,) = children(footprint.child.pid)
    assert footprint.adopt(sentry)
    with none_left(resource.RLIMIT_NOFILE):
        footprint.strike()
    assert wait_gone([footprint.child.pid, sentry], 5)
    # This "sentry" lived in the user namespace of everybody, who would be waited for as its guests are.
    monkeypatch.setattr(gvisor_footprint, "GONE_SECONDS", 0.1)
    footprint.clear()
    assert list(cells.iterdir()) == []
    for descriptor in (read, write):
        os.close(descriptor)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_start_is_undone_and_stays_cancelled_where_it_fails(fails: bool) -> None:
    undone: list[int] = []
    begun, go = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        go.wait()
        if fails:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return 7

    task = asyncio.create_task(own(in_spawner(work), undone.append))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert undone == ([] if fails else [7])


def test_a_thread_with_the_number_of_a_former_process_is_no_process() -> None:
    numbers: list[int] = []
    stop = threading.Event()
    thread = threading.Thread(target=lambda: (numbers.append(threading.get_native_id()), stop.wait()))
    thread.start()
    while not numbers:
        thread.join(0)
    signal_process(numbers[0], 1, signal.SIGKILL)
    assert wait_gone(numbers, 0)
    stop.set()
    thread.join()


def test_a_child_is_bound_to_its_cpus_and_the_spawner_is_not() -> None:
    read, write = os.pipe()
    everywhere = os.sched_getaffinity(0)
    one = frozenset({min(everywhere)})
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    child = in_spawner(lambda: Child.start(program(sys.executable, "-c", script, cpus=one, stdout=write))).result(5)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read().strip() == str(sorted(one))
    child.reap()
    assert in_spawner(lambda: os.sched_getaffinity(0)).result(5) == everywhere


def test_the_spawner_works_on_after_a_failure_and_in_a_forked_child() -> None:
    with pytest.raises(FileNotFoundError):
        in_spawner(lambda: Child.start(program("/nonexistent"))).result(5)
    assert in_spawner(lambda: 1).result(5) == 1
    pid = os.fork()
    if pid == 0:
        os._exit(in_spawner(lambda: 7).result(5))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_a_cell_that_joining_a_cgroup_has_unbound_is_bound_again(tmp_path: Path) -> None:
    """As Linux before 6.2 does where the cgroup has a cpuset; here, the FIFOs stand for a cgroup's entrance."""
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    everywhere = os.sched_getaffinity(0)
    one = frozenset({min(everywhere)})
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    command = [
        "/bin/sh",
        str(LAUNCHER),
        "--bound",
        "--join",
        str(first),
        "--join",
        str(second),
        "--",
        sys.executable,
        "-c",
        script,
    ]
    read, write = os.pipe()
    child = in_spawner(lambda: Child.start(program(*command, cpus=one, stdout=write))).result(5)
    os.close(write)
    assert first.read_text() == "0\n"
    os.sched_setaffinity(child.pid, everywhere)  # while it waits for the second to be opened
    assert second.read_text() == "0\n"
    with os.fdopen(read) as told:
        assert told.read().strip() == str(sorted(one))
    child.reap()


# --- bound CPUs -------------------------------------------------------------------------------------------------------


def test_cells_are_spread_evenly_over_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_bound", Counter())
    chosen = [cpus.bind(range(4), 1) for _ in range(8)]
    assert Counter(cpu for one in chosen for cpu in one) == dict.fromkeys(range(4), 2)
    cpus.release(chosen[0])
    assert cpus.bind(range(4), 1) == chosen[0]
    assert len(cpus.bind(range(4), 3)) == 3
    assert cpus.bind(range(2), 9) == {0, 1}


# --- last words -------------------------------------------------------------------------------------------------------


def test_standard_error_takes_its_size_and_no_more() -> None:
    stderr = Stderr()
    assert os.write(stderr.descriptor, b"x" * SIZE) == SIZE
    with pytest.raises(PermissionError):
        os.write(stderr.descriptor, b"more")
    with pytest.raises(PermissionError):
        os.ftruncate(stderr.descriptor, SIZE * 2)
    assert stderr.text() == b"x" * SIZE
    stderr.close()
    stderr.close()
    assert stderr.text() == b""


@pytest.mark.parametrize(
    "text", [b"", b"\x1b[31mred\x1b[0m\r\nline\n", b"\xff\xfe\x00", "\u202eevil\n".encode(), b"x" * SIZE]
)
def test_last_words_are_one_short_printable_line(text: bytes) -> None:
    said = last_words(text)
    assert said.isprintable()
    assert len(said) <= 403
