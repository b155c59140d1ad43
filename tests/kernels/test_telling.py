"""How kernels tell errors, limits and objects: the parts that need no sandbox, since the code is ours."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.kernels import display, failure
from dayfly.agent.kernels.executor import Executor
from dayfly.agent.kernels.link import Interrupts, Link
from dayfly.agent.kernels.records import Reader, check
from dayfly.agent.kernels.streams import PROMPT_LINES, Stream


def raised(function: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        function()
    return caught.value


def os_error(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path)


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (MemoryError(), "memory"),
        (os_error(errno.ENOMEM), "memory"),
        (RuntimeError("can't start new thread"), "processes"),
        (RuntimeError("something else"), None),
        (os_error(errno.ENOSPC, "/tmp/x"), "disk"),
        (os_error(errno.EDQUOT, "/tmp/x"), "disk"),
        (os_error(errno.EFBIG, "/tmp/x"), "disk"),
        (os_error(errno.ENOSPC, "/dev/shm/x"), "shm"),
        (os_error(errno.EMFILE), "open_files"),
        (os_error(errno.ENFILE), "open_files"),
        (os_error(errno.EAGAIN), None),
        (os_error(errno.ENOENT), None),
        (ValueError(), None),
    ],
)
def test_an_error_names_the_limit_it_comes_from(error: BaseException, limit: str | None) -> None:
    assert failure.limit_of(error) == limit


def test_a_limit_is_found_behind_another_error() -> None:
    def wrap() -> None:
        try:
            raise MemoryError
        except MemoryError as error:
            raise ValueError("it did not fit") from error

    assert failure.limit_of(raised(wrap)) == "memory"


def test_eagain_of_a_fork_is_the_limit_of_processes_and_that_of_a_socket_is_none() -> None:
    def fork(really: bool = False) -> None:
        if really:
            os.fork()
        raise os_error(errno.EAGAIN)

    def read() -> None:
        raise os_error(errno.EAGAIN)

    assert failure.limit_of(raised(fork)) == "processes"
    assert failure.limit_of(raised(read)) is None


def test_a_chain_of_causes_without_end_is_followed_only_so_far() -> None:
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    assert failure.limit_of(first) is None


def test_the_drivers_own_frames_are_not_told() -> None:
    executor = Executor({}, lambda value: None)
    error = raised(lambda: executor.run(executor.parse("def f(): return 1 / 0\nf()", "<cell 1>")))
    traceback = str(failure.describe(error)["traceback"])
    assert failure.HERE not in traceback
    assert traceback.count('File "<cell 1>"') == 2


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
types = st.sampled_from(["text/plain", "image/png", "application/json", "x/y+json", "application/pdf"]) | st.text()


@given(st.dictionaries(types | st.integers(), anything, max_size=5) | anything, anything)
def test_whatever_an_object_says_the_bundle_is_one_that_the_agent_takes(data: Any, metadata: Any) -> None:
    bundle, more = display.clean(data, metadata)
    check({"display": {"data": bundle, "metadata": more, "main": False, "omitted": 0}})


def test_a_dict_that_changes_its_mind_is_taken_at_its_first_word() -> None:
    class Fickle(dict):  # type: ignore[type-arg]
        turns = 0

        def items(self) -> Any:
            self.turns += 1
            return [("a", 1)] if self.turns == 1 else [("a", object())]

    bundle, _ = display.clean({"application/json": Fickle(a=1)}, None)
    check({"display": {"data": bundle, "metadata": {}, "main": False, "omitted": 0}})


def pipe_stream() -> tuple[int, Stream]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    return read_end, Stream(write_end, "<test>")


def test_the_first_lines_of_a_run_leave_one_by_one() -> None:
    read_end, stream = pipe_stream()
    for number in range(PROMPT_LINES):
        stream.write(f"{number}\n")
        assert os.read(read_end, 100) == f"{number}\n".encode()


def test_a_flood_leaves_in_pieces_and_its_end_soon_without_being_asked() -> None:
    read_end, stream = pipe_stream()
    expected = b"".join(b"%d\n" % number for number in range(5000))
    for number in range(5000):
        stream.write(f"{number}\n")
    os.set_blocking(read_end, True)
    found = b""
    while len(found) < len(expected):
        found += os.read(read_end, 1 << 16)
    assert found == expected


def test_an_interrupt_never_cuts_a_record() -> None:
    """A storm of SIGINT while records are sent and read: all of them arrive whole."""
    import socket

    ours, theirs = socket.socketpair()
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    interrupts.install()
    reader, seen, interrupted = Reader(), 0, 0
    storm = subprocess.Popen(["sh", "-c", f"for i in $(seq 300); do kill -INT {os.getpid()}; done"])

    def collect() -> None:
        nonlocal seen
        while data := ours.recv(1 << 16):
            reader.feed(data)
            while reader.next() is not None:
                seen += 1

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        link = Link(theirs.fileno(), interrupts)
        sent = 0
        while storm.poll() is None or sent < 100:
            try:
                interrupts.arm()
                sent += 1
                link.send({"ready": {"filling": "x" * 100_000}})
                interrupts.armed = False
            except KeyboardInterrupt:
                interrupts.armed = False
                interrupted += 1
    finally:
        interrupts.armed = False
        storm.wait()
        signal.signal(signal.SIGINT, before)
        theirs.close()
        collector.join()
    assert interrupted > 0
    assert sent - interrupted <= seen <= sent
    assert len(reader) == 0


def test_records_of_several_threads_arrive_one_after_the_other() -> None:
    import socket

    ours, theirs = socket.socketpair()
    link = Link(theirs.fileno(), Interrupts())
    threads = [
        threading.Thread(target=lambda: [link.send({"ready": {"filling": "x" * 300_000}}) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    reader, seen = Reader(), 0
    while seen < 80:
        reader.feed(ours.recv(1 << 16))
        while reader.next() is not None:
            seen += 1
    for thread in threads:
        thread.join()
    assert len(reader) == 0
    ours.close()
    theirs.close()
