"""Drained, cut, taken up again: the cases by name. All their interleavings are walked by ``talk.TalkOverCutStreams``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire import flow
from dayfly.wire.connection import AGENT, CLOSED, DETACHED, HOST, LIVE, QUIESCED, RESUMING, Connection
from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError
from dayfly.wire.messages import Data, Eof, Event, Finish, Goodbye, Ping, Pong, Quiesce, Quiesced, Resume

from .peers import Pair, forged, live, thorough


def with_channel() -> tuple[Pair, int]:
    pair = live()
    channel = pair.host.open("execute", {})
    pair.settle()
    return pair, channel


def quiesced() -> tuple[Pair, int]:
    pair, channel = with_channel()
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)
    pair.agent.send(Quiesced())
    pair.pass_on(pair.agent)
    return pair, channel


def heard(found: list) -> list:
    return [received.message for received in found if received.channel]


@pytest.mark.parametrize("direction", [HOST, AGENT])
def test_a_cut_at_any_byte_loses_nothing_and_repeats_nothing(direction: str) -> None:
    def said() -> tuple[Pair, int]:
        pair, channel = with_channel()
        side = pair.host if direction == HOST else pair.agent
        side.send(Event("resize", {"rows": 1}), channel)
        side.send_data(channel, 0, b"some bytes")
        side.send_data(channel, 1, bytes(5000))
        side.send(Eof(0), channel)
        pair.write(side)
        return pair, channel

    expected = [Event("resize", {"rows": 1}), Data(0, b"some bytes"), Data(1, bytes(5000)), Eof(0)]
    pair, _ = said()
    total = len(pair.to_agent) + len(pair.to_host)
    for at in (*range(200), 1000, *range(total - 60, total + 1)):
        pair, _ = said()
        listener = pair.agent if direction == HOST else pair.host
        found = heard(pair.read(listener, at))
        pair.cut()
        pair.host.resume()
        found += heard(pair.settle())
        assert found == expected, at
        assert pair.host.state == pair.agent.state == LIVE
        assert pair.host.held + pair.agent.held < 20_000


@given(st.lists(st.integers(0, 400), max_size=12))
@thorough(100)
def test_resumes_that_are_cut_themselves_are_tried_until_one_gets_through(cuts: list[int]) -> None:
    """Each attempt is cut after so many bytes in both directions."""
    pair, channel = with_channel()
    pair.host.send_data(channel, 0, b"from the host")
    pair.agent.send_data(channel, 1, b"from the agent")
    pair.agent.send(Finish({}), channel)
    found = []
    for size in cuts:
        pair.cut()
        pair.host.resume()
        pair.write(pair.host)
        found += pair.read(pair.agent, size)
        pair.write(pair.agent)
        found += pair.read(pair.host, size)
        pair.write(pair.host)
        found += pair.read(pair.agent, size)
    pair.cut()
    pair.host.resume()
    found += pair.settle()
    messages = heard(found)
    assert messages.count(Data(1, b"from the agent")) == 1
    assert messages.count(Finish({})) == 1
    assert messages.count(Data(0, b"from the host")) <= 1  # late, if the agent's end overtook it
    assert pair.host.epoch == pair.agent.epoch == len(cuts) + 1


def test_after_quiesced_no_byte_is_under_way_and_nothing_can_be_said() -> None:
    pair, channel = with_channel()
    pair.agent.send_data(channel, 1, bytes(40_000))
    pair.agent.send(Ping(3))
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)
    assert pair.host.sendable(channel) == 0
    assert not pair.host.can_open
    for wrong in (lambda: pair.host.send(Ping(1)), lambda: pair.host.send(Event("resize", {}), channel),
                  lambda: pair.host.open("usage", {}), lambda: pair.host.send_data(channel, 0, b"x")):  # fmt: skip
        with pytest.raises(LocalProtocolError):
            wrong()
    pair.agent.send(Event("started", {"count": 1}), channel)  # the agent may still say what it has
    pair.agent.send(Quiesced())
    found = pair.pass_on(pair.agent)
    assert [type(received.message) for received in found] == [Data, Event, Quiesced]
    for received in found:
        pair.host.consume(received.channel, received.cost)
    assert pair.host.state == pair.agent.state == QUIESCED
    for side in (pair.host, pair.agent):
        assert not side.has_output
        assert side.take_output() == []
    assert pair.host.held == 0  # the agent keeps what the host has not had the occasion to acknowledge
    assert pair.agent.sendable(channel) == 0
    with pytest.raises(LocalProtocolError):
        pair.agent.send(Finish({}), channel)
    pair.host.resume()
    back = [type(received.message).__name__ for received in pair.settle()]
    assert back == ["Resume", "Resume", "Pong", "Credit"]  # what was owed is given now


@pytest.mark.parametrize("stream", ["in place", "new"])
def test_a_quiesced_connection_goes_on_in_place_or_on_a_new_stream(stream: str) -> None:
    pair, channel = quiesced()
    if stream == "new":
        pair.cut()
    pair.host.resume()
    assert pair.host.state == RESUMING
    assert pair.host.sendable(channel) == 0
    pair.settle()
    assert pair.host.state == pair.agent.state == LIVE
    pair.host.send_data(channel, 0, b"on we go")
    assert heard(pair.settle()) == [Data(0, b"on we go")]


def test_credit_that_was_held_back_is_given_after_the_resume() -> None:
    pair, channel = with_channel()
    pair.agent.send_data(channel, 1, bytes(pair.agent.sendable(channel)))
    found = pair.pass_on(pair.agent)
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)
    pair.host.consume(channel, found[0].cost)
    pair.host.raise_window(channel)
    assert not pair.host.has_output
    pair.agent.send(Quiesced())
    pair.pass_on(pair.agent)
    pair.cut()
    pair.host.resume()
    pair.settle()
    assert pair.agent._channels.get(channel).credit == flow.BULK_WINDOW


@pytest.mark.parametrize("heard_by_the_agent", [True, False])
@pytest.mark.parametrize("answered", [True, False])
def test_a_cut_cancels_a_quiesce_under_way(heard_by_the_agent: bool, answered: bool) -> None:
    pair, channel = with_channel()
    pair.host.send(Quiesce())
    pair.write(pair.host)
    if heard_by_the_agent:
        pair.read(pair.agent)
        if answered:
            pair.agent.send(Quiesced())
            pair.write(pair.agent)
    pair.cut()
    pair.host.resume()
    pair.settle()
    assert pair.host.state == pair.agent.state == LIVE
    pair.host.send_data(channel, 0, b"x")
    pair.agent.send_data(channel, 1, b"y")
    assert len(pair.settle()) == 2
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)
    pair.agent.send(Quiesced())
    pair.pass_on(pair.agent)
    assert pair.host.state == pair.agent.state == QUIESCED


def test_bytes_that_the_application_has_not_consumed_are_not_sent_again() -> None:
    pair, channel = with_channel()
    pair.host.send_data(channel, 0, bytes(30_000))
    pair.agent.send_data(channel, 1, bytes(30_000))
    unread = pair.settle()
    pair.cut()
    pair.host.resume()
    assert heard(pair.settle()) == []
    for received in unread:
        side = pair.agent if received.message.stream == 0 else pair.host
        side.consume(channel, received.cost)
    assert pair.host.sendable(channel) + 30_000 + flow.FRAME_COST == flow.WINDOW - flow.EVENT_RESERVE - flow.FRAME_COST


@pytest.mark.parametrize("epoch", [-1, 0, 1 << 63])
def test_a_resume_of_an_old_epoch_is_refused_by_the_agent(epoch: int) -> None:
    pair, _ = with_channel()
    pair.cut()
    pair.host.resume()
    pair.settle()
    pair.cut()
    frame = forged(pair.agent, Resume(min(epoch, 1), pair.agent._ledger.sent))
    with pytest.raises(RemoteProtocolError, match="epoch"):
        pair.agent.receive(frame)
    assert pair.agent.state == CLOSED


@pytest.mark.parametrize("epoch", [0, 2, 1 << 63])
def test_the_agent_must_repeat_the_epoch(epoch: int) -> None:
    pair, _ = with_channel()
    pair.cut()
    pair.host.resume()
    pair.host.take_output()
    with pytest.raises(RemoteProtocolError, match="epoch"):
        pair.host.receive(forged(pair.host, Resume(epoch, pair.host._ledger.sent)))


@pytest.mark.parametrize("role", [HOST, AGENT])
@pytest.mark.parametrize("received", ["more than was sent", "less than was acknowledged", "negative"])
def test_a_resume_that_counts_otherwise_is_refused(role: str, received: str) -> None:
    pair, channel = with_channel()
    pair.host.send_data(channel, 0, b"x")
    pair.settle()
    pair.cut()
    pair.host.resume()
    pair.host.take_output()
    side = pair.host if role == HOST else pair.agent
    acked = side._ledger.sent - len(side._ledger._kept)
    assert acked > 0
    number = {"more than was sent": side._ledger.sent + 1, "less than was acknowledged": acked - 1, "negative": -1}
    with pytest.raises(RemoteProtocolError, match="acknowledged"):
        side.receive(forged(side, Resume(1, number[received])))


@pytest.mark.parametrize("role", [HOST, AGENT])
def test_old_frames_that_are_played_again_are_refused(role: str) -> None:
    pair, channel = with_channel()
    side = pair.host if role == HOST else pair.agent
    speaker = pair.other(side)
    speaker.send_data(channel, 0, b"once")
    pair.write(speaker)
    recorded = bytes(pair.way_to(side))
    pair.settle()
    with pytest.raises(RemoteProtocolError, match="after frame"):
        side.receive(recorded)
    pair, channel = with_channel()
    side = pair.host if role == HOST else pair.agent
    pair.cut()
    with pytest.raises(RemoteProtocolError, match="detached"):
        side.receive(recorded)  # an old stream's bytes, before any Resume


def test_only_the_host_resumes_and_only_what_can_be_resumed_is_detached() -> None:
    pair, _ = with_channel()
    with pytest.raises(LocalProtocolError):
        pair.host.resume()  # nothing is wrong with the stream
    pair.cut()
    with pytest.raises(LocalProtocolError):
        pair.agent.resume()
    assert pair.agent.state == DETACHED
    pair.host.detach()  # twice is fine
    for fresh in (Connection(HOST), Connection(AGENT)):
        with pytest.raises(LocalProtocolError):
            fresh.detach()
    pair.host.close()
    for call in (pair.host.detach, pair.host.resume):
        with pytest.raises(LocalProtocolError):
            call()


def test_what_is_said_while_detached_is_refused_and_what_was_said_before_is_kept() -> None:
    pair, channel = with_channel()
    pair.host.send_data(channel, 0, b"kept")
    pair.cut()
    assert pair.host.sendable(channel) == 0
    with pytest.raises(LocalProtocolError):
        pair.host.send_data(channel, 0, b"x")
    with pytest.raises(LocalProtocolError):
        pair.host.send(Goodbye(""))
    assert pair.host.take_output() == []
    pair.host.resume()
    assert heard(pair.settle()) == [Data(0, b"kept")]


def test_a_ping_is_answered_once_over_any_cut() -> None:
    pair, _ = with_channel()
    pair.host.send(Ping(7))
    pair.cut()
    pair.host.resume()
    pair.pass_on(pair.host)
    pair.pass_on(pair.agent)
    pair.pass_on(pair.host)
    pair.write(pair.agent)
    pair.cut()  # the answer is lost
    pair.host.resume()
    found = [received.message for received in pair.settle()]
    assert found.count(Pong(7)) == 1
