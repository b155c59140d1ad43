"""Parts of the agent alone: the loop, streams and the ring, without any process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.core import Agent
from dayfly.agent.loop import MAX_SIGNALS, Loop
from dayfly.agent.observers import MAX_CHUNKS, RING, Ring
from dayfly.agent.streams import UNLIMITED, Sink, Source, waiting_bytes
from dayfly.agent.supervisor import Supervisor, User


class Bucket(Sink):
    """Takes ``room_left`` bytes, remembers them, and whether the source ended."""

    def __init__(self, room_left: int = UNLIMITED) -> None:
        self.room_left = room_left
        self.data = b""
        self.over = False

    def room(self) -> int:
        return self.room_left

    def take(self, stream: int, data: bytes) -> None:
        assert len(data) <= self.room_left
        self.room_left -= len(data)
        self.data += data

    def ended(self, source: Source) -> None:
        assert not self.over
        self.over = True


def turn(loop: Loop, until: Callable[[], bool], turns: int = 1000) -> None:
    """Let the loop run; a timer keeps it from waiting for ever."""
    for _ in range(turns):
        if until():
            return
        loop.call_later(0.01, lambda: None)
        loop.step()
    raise AssertionError("it did not come")


# --- the loop -----------------------------------------------------------------------------------------------------


def test_timers_fire_in_order_and_a_cancelled_one_never(loop: Loop) -> None:
    found: list[str] = []
    now = time.monotonic()  # all of them are due in the same round
    loop.call_at(now - 1, lambda: found.append("second"))
    loop.call_at(now - 2, lambda: found.append("first"))
    loop.call_at(now - 1.5, lambda: found.append("never")).cancel()
    turn(loop, lambda: len(found) == 2)
    assert found == ["first", "second"]


def test_the_clock_is_asked_once_in_a_round_that_sets_a_timer(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a system call inside a young gVisor. A later round asks anew: a timer that is due is not missed."""
    now, asked = [100.0], [0]

    def monotonic() -> float:
        asked[0] += 1
        return now[0]

    monkeypatch.setattr("dayfly.agent.loop.time", SimpleNamespace(monotonic=monotonic))
    fired: list[str] = []
    loop.call_soon(lambda: fired.append("soon"))
    loop.step()
    loop.call_soon(lambda: loop.call_later(5.0, lambda: fired.append("later")) and None)
    loop.step()
    before = asked[0]
    loop.call_soon(lambda: None)
    loop.step()
    assert asked[0] == before, "what the callback asked serves the timers of its round"
    now[0] += 6.0
    signal.raise_signal(signal.SIGALRM)  # as it would by a real clock
    while len(fired) < 2:
        loop.step()
    assert fired == ["soon", "later"]


def test_rounds_ask_the_clock_for_no_timer_that_an_earlier_alarm_stands_for(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [0]

    def monotonic() -> float:
        asked[0] += 1
        return 100.0

    monkeypatch.setattr("dayfly.agent.loop.time", SimpleNamespace(monotonic=monotonic))
    loop.call_at(200.0, lambda: None).cancel()
    loop.call_at(150.0, lambda: None)
    loop.call_soon(lambda: None)
    loop.step()
    assert asked == [1]
    for later in range(10):
        loop.call_at(151.0 + later, lambda: None)
        loop.call_soon(lambda: None)
        loop.step()
    assert asked == [1]


def test_timers_ring_while_nothing_else_goes_on(loop: Loop) -> None:
    rung: list[str] = []
    loop.call_later(0.002, lambda: rung.append("first")).cancel()
    loop.call_later(0.004, lambda: rung.append("second"))
    loop.call_later(0.006, lambda: loop.call_later(0.001, lambda: rung.append("third")))
    while len(rung) < 2:
        loop.step()
    assert rung == ["second", "third"]


def test_a_timer_that_comes_before_the_alarm_has_one_of_its_own(loop: Loop) -> None:
    rung: list[str] = []
    loop.call_later(1000.0, lambda: rung.append("late"))
    loop.call_soon(lambda: None)
    loop.step()
    loop.call_later(0.001, lambda: rung.append("soon"))
    while not rung:
        loop.step()
    assert rung == ["soon"]


def test_an_alarm_that_is_lost_among_too_many_signals_is_set_again(loop: Loop) -> None:
    rung: list[str] = []
    loop.call_later(1000.0, lambda: rung.append("late"))
    loop.call_soon(lambda: None)
    loop.step()
    loop._timers[0].due = 0.0
    os.write(loop._wake_write, bytes([signal.SIGCHLD]) * MAX_SIGNALS)
    while not rung:
        loop.step()


def test_the_death_of_a_child_is_told_apart_from_an_alarm(loop: Loop) -> None:
    deaths: list[str] = []
    loop.on_child = lambda: deaths.append("a child")
    loop.call_later(0.001, lambda: None)
    while loop._timers:
        loop.step()
    assert deaths == []
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    turn(loop, lambda: bool(deaths))


def test_whoever_leaves_the_loop_is_not_rung_for(loop: Loop) -> None:
    loop.call_later(1000.0, lambda: None)
    loop.call_soon(lambda: None)
    loop.step()
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    loop.abandon()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_callback_that_raises_is_told_and_stops_nothing_else(loop: Loop) -> None:
    errors: list[BaseException] = []
    loop.on_error = errors.append
    read_end, write_end = os.pipe()
    os.write(write_end, b"x")
    done: list[int] = []
    loop.on_readable(read_end, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    loop.call_later(0.01, lambda: done.append(1))
    turn(loop, lambda: bool(done))
    turn(loop, lambda: True)
    assert [type(error) for error in errors] == [ZeroDivisionError]  # once: its descriptor is forgotten


def test_many_slices_of_work_do_not_starve_a_descriptor(loop: Loop) -> None:
    def again() -> None:
        loop.call_soon(again)

    for _ in range(200):
        loop.call_soon(again)
    read_end, write_end = os.pipe()
    os.write(write_end, b"x")
    seen: list[bytes] = []
    loop.on_readable(read_end, lambda: seen.append(os.read(read_end, 10)))
    turn(loop, lambda: bool(seen), turns=3)


def test_the_death_of_a_child_is_told(loop: Loop) -> None:
    told: list[int] = []
    loop.on_child = lambda: told.append(1)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    turn(loop, lambda: bool(told))
    os.waitpid(pid, 0)


def test_what_was_polled_for_a_closed_descriptor_is_not_served_to_the_next_of_its_number(loop: Loop) -> None:
    ends = [os.pipe() for _ in range(2)]
    (first, _), (second, _) = ends
    for _, write_end in ends:
        os.write(write_end, b"x")
    served: list[int] = []
    stale: list[int] = []
    empty, late = os.pipe()

    def serve(mine: int, other: int) -> None:
        served.append(mine)
        for fd in (mine, other):
            loop.forget(fd)
        os.dup2(empty, other)
        loop.on_readable(other, lambda: stale.append(other))

    loop.on_readable(first, lambda: serve(first, second))
    loop.on_readable(second, lambda: serve(second, first))
    loop.step()
    assert (len(served), stale) == (1, [])
    os.write(late, b"x")
    turn(loop, lambda: bool(stale))
    assert stale != served


# --- sources ------------------------------------------------------------------------------------------------------


def source(loop: Loop, bucket: Bucket) -> tuple[Source, int]:
    read_end, write_end = os.pipe()
    made = Source(loop, read_end, 1, bucket)
    made.resume()
    return made, write_end


def test_a_source_reads_all_and_tells_its_end_once(loop: Loop) -> None:
    bucket = Bucket()
    made, write_end = source(loop, bucket)
    os.write(write_end, b"abc")
    os.close(write_end)
    turn(loop, lambda: bucket.over)
    made.close()
    assert bucket.data == b"abc"


def test_a_source_begins_with_what_is_there_and_leaves_open_what_is_lent(loop: Loop) -> None:
    bucket = Bucket()
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    made = Source(loop, read_end, 1, bucket, lent=True)
    made.begin()
    assert bucket.data == b""
    os.write(write_end, b"abc")
    turn(loop, lambda: bucket.data == b"abc")
    early = Bucket()
    os.write(write_end, b"def")
    made.close()
    again = Source(loop, read_end, 1, early, lent=True)
    again.begin()
    assert early.data == b"def", "at once"
    os.close(write_end)
    turn(loop, lambda: early.over)
    os.close(read_end)  # nobody else has


def test_a_source_takes_no_more_than_there_is_room_for(loop: Loop) -> None:
    bucket = Bucket(room_left=4)
    made, write_end = source(loop, bucket)
    os.write(write_end, b"abcdefgh")
    turn(loop, lambda: bucket.data == b"abcd")
    bucket.room_left = 10
    made.resume()
    turn(loop, lambda: bucket.data == b"abcdefgh")


def test_a_settled_source_ends_with_what_was_there(loop: Loop) -> None:
    bucket = Bucket(room_left=0)
    made, write_end = source(loop, bucket)
    os.write(write_end, b"before")
    made.settle()
    os.write(write_end, b"after")
    bucket.room_left = 100
    made.resume()
    turn(loop, lambda: bucket.over)
    assert bucket.data == b"before"


def test_an_empty_source_settles_at_once(loop: Loop) -> None:
    bucket = Bucket()
    made, write_end = source(loop, bucket)
    made.settle()
    assert (bucket.over, bucket.data) == (True, b"")
    os.close(write_end)


def test_what_waits_in_a_pipe_is_counted() -> None:
    read_end, write_end = os.pipe()
    assert waiting_bytes(read_end) == 0
    os.write(write_end, bytes(50_000))
    assert waiting_bytes(read_end) == 50_000


# --- the ring -----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 2), st.binary(max_size=40).map(lambda part: part * 2000)), max_size=30))
def test_the_ring_keeps_the_last_bytes_of_each_moment_in_order(chunks: list[tuple[int, bytes]]) -> None:
    ring = Ring()
    for stream, data in chunks:
        ring.keep(stream, data)
    assert _bytes(ring.replay()) == [written[-RING:] for written in _bytes(chunks)]


def _bytes(chunks: Iterable[tuple[int, bytes]]) -> list[bytes]:
    """All of them, and of each the stream that it came on."""
    listed = list(chunks)
    return [b"".join(data for _, data in listed), b"".join(bytes([stream]) * len(data) for stream, data in listed)]


def test_a_hundred_thousand_tiny_pieces_do_not_fill_the_ring_with_objects() -> None:
    ring = Ring()
    for number in range(100_000):
        ring.keep(1 + number % 2, b"x")
    assert sum(len(data) for _, data in ring.replay()) <= RING
    assert len(ring.replay()) <= MAX_CHUNKS


# --- the agent ----------------------------------------------------------------------------------------------------------


def test_what_was_put_off_is_done_before_a_sandbox_is_frozen(loop: Loop) -> None:
    """Else whoever thaws it waits for that."""
    ours, theirs = os.pipe2(os.O_NONBLOCK)
    agent = Agent(loop, ours, theirs)
    agent.supervisor = Supervisor(loop, User(1000, 1000, "/"), {"data": 1 << 62}, {})
    woken: list[str] = []
    agent._guard = guard = SimpleNamespace(wake=lambda: woken.append("woken"), ended=lambda: None, awake=False)  # type: ignore[assignment]
    agent.settle()
    assert woken == []
    agent.runs(1)
    agent.runs(-1)
    (timer,) = [timer for timer in loop._timers if timer.callback is not None]
    agent.settle()
    assert (woken, timer.callback) == (["woken"], None)
    agent.settle()
    assert woken == ["woken"]
    guard.awake = True
    agent.runs(1)
    assert not [timer for timer in loop._timers if timer.callback is not None], "it looks by itself"
    os.close(ours)
    os.close(theirs)
