"""What the agent opens: the session of a real loop over pipes, and the host's end of the protocol in the test's hands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from dayfly.agent.loop import Loop
from dayfly.agent.openings import MAX_WAITING, Full, Opened, Openings
from dayfly.agent.session import Session, Task
from dayfly.wire.connection import PROTOCOL, Connection, Received
from dayfly.wire.flow import MAX_CHANNELS
from dayfly.wire.messages import HOST, Cancel, Data, Eof, Event, Fail, Finish, Hello, Open, Quiesce, Quiesced
from dayfly.wire.operations import STDIN, STDOUT, TUNNEL
from dayfly.wire.states import LIVE, RESUMING


class Agent:
    """As much of one as openings need."""

    def __init__(self, loop: Loop, session: Session) -> None:
        self.loop = loop
        self.session = session


class Peer:
    """The host's end."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        there, back = os.pipe(), os.pipe()
        self._fds = (*there, *back)
        self._read, self._write = back[0], there[1]
        self.connection = Connection(HOST)
        self.session = Session(loop, there[0], back[1])
        self.openings = Openings(Agent(loop, self.session))  # type: ignore[arg-type]
        self.heard: list[Received] = []
        self.connection.send(Hello(PROTOCOL, "n", {"limits": {}, "env": {}, "user": None, "prestart": []}))
        self.turn()

    def turn(self) -> None:
        """Say all, let the agent serve it, and hear its answer."""
        if self.connection.has_output:
            os.writev(self._write, self.connection.take_output())
        for _ in range(3):
            self.loop.call_soon(lambda: None)  # so that it does not wait
            self.loop.step()
        os.set_blocking(self._read, False)
        try:
            self.heard += self.connection.receive(os.read(self._read, 1 << 20))
        except BlockingIOError:
            return

    def said(self, kind: type) -> list[Received]:
        return [one for one in self.heard if isinstance(one.message, kind)]

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


class Log(Task):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def on_event(self, name: str, fields: Any) -> None:
        self.heard.append(("event", name))

    def on_data(self, stream: int, data: bytes) -> None:
        self.heard.append(("data", stream, data))

    def on_eof(self, stream: int) -> None:
        self.heard.append(("eof", stream))

    def on_finish(self, value: Any) -> None:
        self.heard.append(("finish", value))

    def on_fail(self, code: str, message: str) -> None:
        self.heard.append(("fail", code, message))

    def on_close(self) -> None:
        self.heard.append(("close",))


@pytest.fixture
def peer(loop: Loop) -> Iterator[Peer]:
    made = Peer(loop)
    yield made
    loop.forget(made.session.descriptors[0])
    made.close()


def opened(peer: Peer, host: str = "a.example", first: bool = False) -> tuple[Opened, Log]:
    log = Log()
    return peer.openings.open(TUNNEL, {"host": host, "port": 443}, log, first=first), log


def hosts(peer: Peer) -> list[str]:
    return [one.message.params["host"] for one in peer.said(Open)]  # type: ignore[attr-defined]


def test_an_opened_channel_carries_both_ways_and_ends_once(peer: Peer) -> None:
    channel, log = opened(peer)
    channel.data(STDIN, b"question")
    channel.eof(STDIN)
    peer.turn()
    assert [type(one.message) for one in peer.heard[-3:]] == [Open, Data, Eof]
    number = peer.heard[-1].channel
    assert number % 2 == 0
    peer.connection.send(Event("connected", {}), number)
    peer.connection.send_data(number, STDOUT, b"answer")
    peer.connection.send(Eof(STDOUT), number)
    peer.connection.send(Finish({}), number)
    peer.turn()
    assert log.heard == [("event", "connected"), ("data", 1, b"answer"), ("eof", 1), ("finish", {}), ("close",)]
    assert not channel.open


def test_a_refusal_is_told_with_its_code_and_text(peer: Peer) -> None:
    _, log = opened(peer)
    peer.turn()
    peer.connection.send(Fail("denied", "not on the list"), peer.heard[-1].channel)
    peer.turn()
    assert log.heard == [("fail", "denied", "not on the list"), ("close",)]


def test_what_is_beyond_the_connections_channels_waits_for_one_in_order(peer: Peer) -> None:
    made = [opened(peer, f"h{number}") for number in range(MAX_CHANNELS + 3)]
    peer.turn()
    assert hosts(peer) == [f"h{number}" for number in range(MAX_CHANNELS)]
    urgent, _ = opened(peer, "urgent", first=True)
    assert [channel.number for channel, _ in made[-3:]] == [0, 0, 0]
    assert urgent.number == 0
    for one in peer.said(Open)[:2]:
        peer.connection.send(Finish({}), one.channel)
    peer.turn()
    peer.turn()
    assert hosts(peer)[MAX_CHANNELS:] == ["urgent", f"h{MAX_CHANNELS}"]


def test_the_queue_is_bounded(peer: Peer) -> None:
    for number in range(MAX_CHANNELS + MAX_WAITING):
        opened(peer, f"h{number}")
    with pytest.raises(Full):
        opened(peer)


def test_what_waits_can_be_taken_back_and_is_never_opened(peer: Peer) -> None:
    for number in range(MAX_CHANNELS):
        opened(peer, f"h{number}")
    waiting, log = opened(peer, "late")
    waiting.cancel()
    assert log.heard == [("close",)]
    peer.turn()
    peer.connection.send(Finish({}), peer.said(Open)[0].channel)
    peer.turn()
    assert "late" not in hosts(peer)


def test_a_cancelled_one_is_told_to_the_host_and_hears_nothing_more(peer: Peer) -> None:
    channel, log = opened(peer)
    peer.turn()
    number = channel.number
    channel.cancel()
    channel.cancel()
    channel.data(STDIN, b"late")
    peer.connection.send_data(number, STDOUT, b"on its way")
    peer.turn()
    peer.connection.send(Fail("cancelled", ""), number)
    peer.turn()
    assert log.heard == [("close",)]
    assert len(peer.said(Cancel)) == 1
    assert not peer.said(Data)


def test_between_quiesced_and_resume_nothing_is_opened_and_nothing_is_said(peer: Peer) -> None:
    open_one, _ = opened(peer, "before")
    peer.turn()
    peer.connection.send(Quiesce())
    peer.turn()
    assert peer.said(Quiesced)
    heard = len(peer.heard)
    opened(peer, "meanwhile")
    open_one.eof(STDIN)
    assert open_one.room() == 0
    peer.turn()
    assert len(peer.heard) == heard
    peer.connection.resume()
    peer.turn()
    peer.turn()
    assert hosts(peer) == ["before", "meanwhile"]
    assert [one.channel for one in peer.said(Eof)] == [open_one.number]


def test_what_was_held_back_for_a_channel_that_ends_with_the_resume_is_dropped(peer: Peer, loop: Loop) -> None:
    errors: list[BaseException] = []
    loop.on_error = errors.append
    channel, log = opened(peer)
    peer.turn()
    peer.connection.send(Quiesce())
    peer.turn()
    channel.eof(STDIN)
    peer.connection.resume()
    os.writev(peer._write, peer.connection.take_output())
    peer.connection.state = LIVE  # this host does not wait for the agent's Resume: both arrive in one read
    peer.connection.send(Finish({}), channel.number)
    os.writev(peer._write, peer.connection.take_output())
    peer.connection.state = RESUMING
    peer.turn()
    assert log.heard[-1] == ("close",)
    assert errors == []


def test_what_a_task_raises_cancels_its_channel_and_nothing_else(peer: Peer, loop: Loop) -> None:
    errors: list[BaseException] = []
    loop.on_error = errors.append

    class Clumsy(Log):
        def on_data(self, stream: int, data: bytes) -> None:
            raise ZeroDivisionError

    clumsy = Clumsy()
    channel = peer.openings.open(TUNNEL, {"host": "a", "port": 1}, clumsy)
    peer.turn()
    peer.connection.send_data(channel.number, STDOUT, b"x")
    peer.turn()
    assert [type(error) for error in errors] == [ZeroDivisionError]
    assert clumsy.heard == [("close",)]
    assert len(peer.said(Cancel)) == 1


def test_a_channel_that_ended_in_the_same_read_takes_nothing_and_harms_nobody(peer: Peer, loop: Loop) -> None:
    """The connection knows of the end before the task has heard of the data."""
    errors: list[BaseException] = []
    loop.on_error = errors.append
    holder: list[Opened] = []

    class Echo(Log):
        def on_data(self, stream: int, data: bytes) -> None:
            super().on_data(stream, data)
            assert holder[0].room() == 0
            holder[0].data(STDIN, data)
            holder[0].eof(STDIN)
            holder[0].consume(len(data))

    echo = Echo()
    holder.append(peer.openings.open(TUNNEL, {"host": "a", "port": 1}, echo))
    peer.turn()
    peer.connection.send_data(holder[0].number, STDOUT, b"x")
    peer.connection.send(Finish({}), holder[0].number)
    peer.turn()
    assert echo.heard == [("data", 1, b"x"), ("finish", {}), ("close",)]
    assert errors == []


def test_an_event_that_the_operation_does_not_have_cancels_it(peer: Peer) -> None:
    channel, log = opened(peer)
    peer.turn()
    peer.connection.send(Event("dance", {}), channel.number)
    peer.turn()
    assert log.heard == [("close",)]
    assert len(peer.said(Cancel)) == 1


def test_the_host_is_told_before_an_answer_what_there_is_to_tell(peer: Peer) -> None:
    peer.session.before_answer = lambda: opened(peer, "told")[1] and None
    number = peer.connection.open("no.such", {})
    peer.turn()
    assert [type(one.message) for one in peer.heard[-2:]] == [Open, Fail]
    assert peer.heard[-1].channel == number
