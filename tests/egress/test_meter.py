"""Caps and rates, on a clock that the test holds."""

from __future__ import annotations

import asyncio
import functools
import heapq
import socket
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.meter import BURST_SECONDS, LEAST_BURST, Meter
from dayfly.egress.relay import Relay


class Held:
    """A clock, and what is to be called when."""

    def __init__(self) -> None:
        self.now = 100.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + seconds, self._count, call))

    def step(self) -> bool:
        if not self._due:
            return False
        due, _, call = heapq.heappop(self._due)
        self.now = max(self.now, due)
        call()
        return True


def meter(held: Held, most: int | None = None, rate: int | None = None) -> Meter:
    one = Meter(held.later, lambda: held.now)
    one.allow(most, rate)
    return one


class Reader:
    """Moves ``size`` bytes, as a flow does."""

    def __init__(self, meter: Meter, size: int, held: Held) -> None:
        self.meter, self.left, self.held = meter, size, held
        self.done_at = 0.0
        self.move(waited=False)

    def go_on(self) -> None:
        self.move(waited=True)

    def move(self, *, waited: bool) -> None:
        while self.left:
            room = self.meter.room(min(self.left, 65536), waited=waited)
            waited = False
            if not room:
                if not self.meter.spent:
                    self.meter.wait(self.go_on)
                return
            self.meter.move(room)
            self.left -= room
        self.done_at = self.held.now


def test_without_a_rule_there_is_always_room() -> None:
    one = meter(Held())
    one.move(1 << 40)
    assert (one.room(100), one.spent, one.beyond(1 << 50)) == (100, False, False)


@given(st.lists(st.integers(1, 100_000), max_size=50), st.integers(1, 1_000_000))
def test_never_more_than_the_cap_is_moved(sizes: list[int], most: int) -> None:
    one = meter(Held(), most)
    for size in sizes:
        one.move(one.room(size))
    assert one.moved == min(sum(sizes), most)
    assert one.spent == (sum(sizes) >= most)


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=8), st.integers(1024, 1_000_000))
def test_a_rate_is_kept_over_any_time_and_nobody_waits_for_ever(sizes: list[int], rate: int) -> None:
    held = Held()
    one = meter(held, rate=rate)
    readers = [Reader(one, size, held) for size in sizes]
    burst = max(rate * BURST_SECONDS, LEAST_BURST)
    while held.step():
        assert one.moved <= burst + (held.now - 100) * rate + 1
    assert all(reader.left == 0 for reader in readers)
    assert held.now - 100 <= sum(sizes) / rate + 1.5


def test_those_who_wait_share() -> None:
    held = Held()
    one = meter(held, rate=100_000)
    readers = [Reader(one, 50_000, held) for _ in range(4)]
    while any(reader.left for reader in readers):
        held.step()
    ends = [reader.done_at - 100 for reader in readers]
    assert max(ends) - min(ends) < 0.6
    assert 1.5 < max(ends) < 2.2


def test_a_lifted_rate_lets_go_at_once() -> None:
    held = Held()
    one = meter(held, rate=1024)
    reader = Reader(one, 1_000_000, held)
    one.allow(None, None)
    for _ in range(3):
        held.step()
    assert reader.left == 0
    assert held.now - 100 < 5


def test_a_cap_that_is_raised_counts_what_was_before() -> None:
    one = meter(Held(), 1000)
    one.move(1000)
    assert one.spent
    one.allow(1500, None)
    assert (one.spent, one.room(9999), one.beyond(500), one.beyond(501)) == (False, 500, False, True)


def test_whoever_comes_later_gets_nothing_while_others_wait() -> None:
    held = Held()
    one = meter(held, rate=100_000)
    first = Reader(one, 60_000, held)
    held.now += 0.1
    assert one.room(1000) == 0
    assert one.room(1000, waited=True) == 1000
    while first.left:
        held.step()
    held.now += 1
    assert one.room(1000) == 1000


def test_whoever_leaves_is_not_called_and_not_kept() -> None:
    held = Held()
    one = meter(held, rate=1024)
    called: list[int] = []
    waiting = [functools.partial(called.append, number) for number in range(100)]
    for call in waiting:
        one.wait(call)
    for call in waiting[:50] * 2:
        one.leave(call)
    one.leave(lambda: None)
    assert len(one._line) == 50
    while held.step():
        pass
    assert called == list(range(50, 100))


async def test_a_flow_that_was_stopped_stands_in_no_line() -> None:
    one = Meter(lambda seconds, call: None)
    one.allow(None, 1024)
    for _ in range(20):
        pairs = [socket.socketpair(), socket.socketpair()]
        for a, b in pairs:
            a.setblocking(False)
            b.setblocking(False)
        relay = Relay(pairs[0][1], pairs[1][0], one, lambda why: None)
        relay.start(b"")
        pairs[0][0].send(bytes(100_000))
        count = len(one._line)
        async with asyncio.timeout(10):
            while len(one._line) == count:
                await asyncio.sleep(0)
        relay.end("ended")
        assert not one._line
        for end in (*pairs[0], *pairs[1]):
            end.close()
