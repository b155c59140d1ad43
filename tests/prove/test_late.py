"""What fails late says that a packet may have left, unless the machine was just busy."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from dayfly.prove.inside import network

UNREACHABLE = OSError(errno.EHOSTUNREACH, "No route to host")


class World:
    """Each connection fails after so many seconds of a held clock."""

    def __init__(self, *seconds: float) -> None:
        self.now, self.asked = 0.0, 0
        self._seconds: Iterator[float] = iter(seconds)

    def monotonic(self) -> float:
        return self.now

    def connect(self, place: tuple[str, int], timeout: float) -> None:
        assert timeout == network.PATIENCE
        self.asked += 1
        self.now += next(self._seconds)
        raise UNREACHABLE


@pytest.mark.parametrize(
    ("seconds", "asked", "reached"),
    [
        ((0.001,), 1, False),
        ((0.6, 0.001), 2, False),
        ((0.6, 1.9, 0.5), 3, False),
        ((0.6, 0.7, 0.8), 3, True),
        ((2.0,), 1, True),
        ((0.6, 3.0), 2, True),
    ],
)
def test_what_is_late_each_time_is_reached(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], asked: int, reached: bool
) -> None:
    world = World(*seconds)
    monkeypatch.setattr(network.time, "monotonic", world.monotonic)
    monkeypatch.setattr(network.socket, "create_connection", world.connect)
    tried, found = network.tcp("10.0.0.1", 22, "token")
    assert (tried, bool(found), world.asked) == (1, reached, asked)
    assert all(one.startswith("failed late") for one in found)


def test_ones_own_loopback_may_be_as_late_as_it_will(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5.0)
    monkeypatch.setattr(network.time, "monotonic", world.monotonic)
    monkeypatch.setattr(network.socket, "create_connection", world.connect)
    assert network.tcp("127.0.0.1", 22, "token", refused_counts=False) == (1, [])
