"""A peer that means harm: whatever it sends is bounded here, or ends the connection as its fault."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire import flow
from dayfly.wire.connection import AGENT, CLOSED, HOST, Connection
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.frames import HEADER_SIZE, MAX_PAYLOAD, header
from dayfly.wire.messages import (
    BY_CLASS,
    Ack,
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Message,
    Open,
    Ping,
    Pong,
    Welcome,
    encode,
)

from .peers import Forger, forged, live, thorough, until_refused
from .reached import BY_AGENT, BY_HOST, at

MIB = 1 << 20


@pytest.fixture
def host() -> Connection:
    """A live host with channel 1, which it opened, and channel 2, which the agent opened."""
    return at(HOST, "live")


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """At no moment does what happens here take more than ``limit`` bytes on top."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


def refused(side: Connection, *frames: bytes) -> str:
    """The error that the last of ``frames`` raises, and no one before."""
    for frame in frames[:-1]:
        side.receive(frame)
    with pytest.raises(RemoteProtocolError) as caught:
        side.receive(frames[-1])
    assert side.state == CLOSED
    assert side.held == 0
    assert side.take_output() == []
    return str(caught.value)


# --- credit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [0, 1, flow.MIN_CREDIT - 1, flow.MAX_CREDIT, (1 << 32) - 1])
def test_absurd_credit_is_a_violation(host: Connection, amount: int) -> None:
    assert "credit" in refused(host, forged(host, Credit(amount), BY_HOST))


def test_credit_adds_up_to_no_more_than_any_honest_window(host: Connection) -> None:
    forger = Forger(host)
    many = (flow.MAX_CREDIT - flow.WINDOW) // flow.MIN_CREDIT
    frames = [forger.frame(Credit(flow.MIN_CREDIT), BY_HOST) for _ in range(many + 1)]
    assert "credit" in refused(host, *frames)


def test_credit_for_what_was_sent_is_earned_for_ever(host: Connection) -> None:
    forger = Forger(host)
    for _ in range(100):
        host.send_data(BY_HOST, 0, bytes(flow.MIN_CREDIT - flow.FRAME_COST))
        host.take_output()
        forger.ack = host._ledger.sent
        host.receive(forger.frame(Credit(flow.MIN_CREDIT), BY_HOST))
    assert host.sendable(BY_HOST) == flow.WINDOW - flow.EVENT_RESERVE - flow.FRAME_COST


# --- channels -------------------------------------------------------------------------------------------------------


def test_ten_thousand_channels_are_refused_at_the_sixty_fifth(host: Connection) -> None:
    forger = Forger(host)
    flood = b"".join(forger.frame(Open("port.connect", {}), 2 * n) for n in range(2, 10_000))
    with memory_below(2 * MIB), pytest.raises(RemoteProtocolError, match="more than 64 channels"):
        host.receive(flood)


@pytest.mark.parametrize("acknowledges", [True, False])
def test_channels_that_are_opened_as_fast_as_they_are_refused_hold_what_is_charged(acknowledges: bool) -> None:
    host = live().host
    forger = Forger(host)

    def open_and_refuse(number: int) -> None:
        for received in host.receive(forger.frame(Open("port.connect", {}), number)):
            host.send(Fail("bad_request", "none are expected"), received.channel)
        host.take_output()
        if acknowledges:
            forger.ack = host._ledger.sent

    with memory_below(2 * MIB):  # of 1.7 charged
        for n in range(1, 5001):
            open_and_refuse(2 * n)
    assert (host.held < 1000) == acknowledges
    if not acknowledges:
        host._ledger.unacked = flow.MAX_UNACKED_ALL  # and so on, until this much is charged
        with pytest.raises(RemoteProtocolError, match="acknowledges nothing"):
            open_and_refuse(2 * 5001)
        assert host.state == CLOSED


@pytest.mark.parametrize("number", [2, 0, 1, 3, 5, 6, 8, (1 << 32) - 1, (1 << 32) - 2])
def test_a_channel_number_is_the_next_one_of_its_side_or_a_violation(host: Connection, number: int) -> None:
    assert "channel" in refused(host, forged(host, Open("port.connect", {}), number))


def test_a_channel_number_is_never_used_again(host: Connection) -> None:
    host.send(Finish({}), BY_AGENT)
    host.take_output()
    forger = Forger(host)
    refused(host, forger.frame(Open("usage", {}), 4), forger.frame(Open("usage", {}), BY_AGENT))


LATE: list[Message] = [Data(0, b"x"), Event("x", {}), Eof(0), Credit(flow.MIN_CREDIT), Cancel()]


@pytest.mark.parametrize("message", LATE)
def test_late_frames_are_legal_from_the_opener_to_the_acceptor_who_closed(host: Connection, message: Message) -> None:
    host.send(Finish({}), BY_AGENT)
    assert host.receive(forged(host, message, BY_AGENT)) == []
    assert host.state == "live"


@pytest.mark.parametrize("message", [Finish({}), Fail("busy", "")])
def test_an_answer_is_never_late(host: Connection, message: Message) -> None:
    host.send(Finish({}), BY_AGENT)
    assert "not open" in refused(host, forged(host, message, BY_AGENT))


@pytest.mark.parametrize("message", LATE[:4])
def test_nothing_follows_from_an_acceptor_after_its_own_end(host: Connection, message: Message) -> None:
    forger = Forger(host)
    assert "not open" in refused(host, forger.frame(Finish({}), BY_HOST), forger.frame(message, BY_HOST))


@pytest.mark.parametrize("message", [*LATE, Finish({}), Fail("busy", "")])
@pytest.mark.parametrize("number", [3, 4, 1001, 1 << 31])
def test_nothing_is_said_on_a_channel_that_never_was(host: Connection, message: Message, number: int) -> None:
    assert "not open" in refused(host, forged(host, message, number))


@pytest.mark.parametrize(
    ("message", "many"),
    [
        (Data(0, bytes(100)), flow.WINDOW // (flow.FRAME_COST + 100)),
        (Event("change", {}), flow.WINDOW // (flow.FRAME_COST + len(encode(Event("change", {}))))),
        (Credit(flow.MIN_CREDIT), flow.POOL // flow.MIN_CREDIT),
        (Eof(0), 1),
        (Cancel(), 1),
    ],
)
def test_late_frames_are_not_held_and_there_is_an_end_to_them(host: Connection, message: Message, many: int) -> None:
    """The opener may say late what it might have said in time, and no more."""
    host.send(Finish({}), BY_AGENT)
    host.take_output()
    forger = Forger(host)
    with memory_below(MIB // 2):
        for _ in range(many):
            assert host.receive(forger.frame(message, BY_AGENT)) == []
    assert host.held < 2000
    refused(host, forger.frame(message, BY_AGENT))


def test_only_the_channels_that_ended_last_may_have_late_frames() -> None:
    host = live().host
    forger = Forger(host)
    for number in range(2, 2 * flow.MAX_CHANNELS + 4, 2):
        host.receive(forger.frame(Open("port.connect", {}), number))
        host.send(Finish({}), number)
    assert host.receive(forger.frame(Eof(0), 4)) == []
    assert "not open" in refused(host, forger.frame(Eof(0), 2))


def test_all_channels_may_end_before_their_opener_hears_of_any() -> None:
    pair = live()
    opened = [pair.agent.open("port.connect", {}) for _ in range(flow.MAX_CHANNELS)]
    pair.pass_on(pair.agent)
    for channel in opened:
        pair.host.send(Finish({}), channel)
    for channel in opened:
        pair.agent.send(Eof(0), channel)
    assert pair.pass_on(pair.agent) == []
    assert pair.host.state == "live"


@given(st.lists(st.tuples(st.sampled_from("oooosssffh"), st.integers(0, 200)), min_size=150, max_size=600))
@thorough(30)
def test_an_honest_opener_that_hears_of_ends_late_is_never_refused(steps: list[tuple[str, int]]) -> None:
    """Everything it says arrives at once, and the ends take their time to reach it."""
    pair = live()
    opened: list[int] = []
    for step, pick in steps:
        if step == "o" and pair.agent.can_open:
            opened.append(pair.agent.open("port.connect", {}))
        elif step == "s" and opened:
            channel = opened[pick % len(opened)]
            if pair.agent.sendable(channel):
                pair.agent.send_data(channel, 0, b"x")
        elif step == "f":
            here = [channel for channel in opened if pair.host.is_open(channel)]
            if here:
                pair.host.send(Finish({}), here[pick % len(here)])
        elif step == "h":
            pair.write(pair.host)
            pair.read(pair.agent, pick)
            opened = [channel for channel in opened if pair.agent.is_open(channel)]
        pair.pass_on(pair.agent)


# --- data and events ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1000, flow.WINDOW])
@pytest.mark.parametrize("kind", [Data, Event])
def test_more_than_the_window_is_a_violation(host: Connection, size: int, kind: type[Message]) -> None:
    forger = Forger(host)
    message = Data(1, bytes(size)) if kind is Data else Event("x", {"x": "x" * min(size, flow.MAX_EVENT - 40)})
    received = until_refused(lambda: host.receive(forger.frame(message, BY_HOST)), RemoteProtocolError, "window had")
    assert received <= flow.WINDOW // (len(encode(message)) + flow.FRAME_COST)


def test_what_the_windows_charge_is_what_holding_the_messages_takes() -> None:
    """So the sum of all windows is the stated bound. The smallest frames are the worst."""
    assert flow.MAX_UNCONSUMED == 2 * flow.MAX_CHANNELS * flow.WINDOW + flow.POOL
    many = 16
    pair = live()
    channels = [pair.host.open("execute", {}) for _ in range(many)]
    pair.settle()
    forger = Forger(pair.host)
    frames = [forger.frame(Data(0, b"x"), channel) for channel in channels
              for _ in range(flow.WINDOW // (flow.FRAME_COST + 1))]  # fmt: skip
    with memory_below(many * flow.WINDOW):
        kept = [pair.host.receive(frame) for frame in frames]
        pair.host.take_output()
    assert len(kept) > many * 500
    assert pair.host.state == "live"


def test_data_without_bytes_is_a_violation_and_not_a_free_flood(host: Connection) -> None:
    frame = header(BY_CLASS[Data].kind, BY_HOST, host._ledger.received + 1, 3, 0)
    assert "without bytes" in refused(host, frame)


def test_the_end_of_every_stream_of_every_channel_is_small() -> None:
    host = live().host
    forger = Forger(host)
    numbers = [2 * n for n in range(1, flow.MAX_CHANNELS + 1)]
    with memory_below(MIB):
        for number in numbers:
            host.receive(forger.frame(Open("port.connect", {}), number))
            for stream in range(256):
                host.receive(forger.frame(Eof(stream), number))
            host.take_output()
    refused(host, forger.frame(Eof(255), numbers[-1]))


# --- the connection's own -------------------------------------------------------------------------------------------


def test_a_flood_of_pings_gets_so_many_answers_and_no_more(host: Connection) -> None:
    forger = Forger(host)
    pings = [forger.frame(Ping(n)) for n in range(flow.MAX_PINGS + 1)]
    assert "Pings" in refused(host, *pings)


def test_pings_whose_answers_nobody_acknowledges_stop_being_answered(host: Connection) -> None:
    """It reads the answers but never says so: they would be kept for a resume for ever."""
    forger = Forger(host)

    def ping(times: int) -> None:
        for n in range(times):
            host.receive(forger.frame(Ping(n)))
            host.take_output()

    ping(1000)
    assert host.held > 1000 * flow.FRAME_COST
    host._ledger.unacked = flow.MAX_UNACKED_CALLS  # and so on, until this much is charged
    ping(flow.MAX_PINGS)
    assert not host.has_output
    assert "Pings" in refused(host, forger.frame(Ping(0)))


def test_a_pong_answers_a_ping(host: Connection) -> None:
    forger = Forger(host)
    refused(host, forger.frame(Pong(9)), forger.frame(Pong(9)))
    other = at(HOST, "live")
    refused(other, forged(other, Pong(10)))


def test_an_acknowledgement_of_nothing_new_is_a_violation(host: Connection) -> None:
    forger = Forger(host)
    forger.ack = host._ledger.sent
    assert "nothing new" in refused(host, forger.frame(Ack()), forger.frame(Ack()))


def test_a_second_welcome_is_a_violation(host: Connection) -> None:
    refused(host, forged(host, Welcome(1, "nonce", {})))


def test_what_is_said_in_one_breath_with_a_violation_does_not_count(host: Connection) -> None:
    forger = Forger(host)
    assert "Data" in refused(host, forger.frame(Finish({}), BY_HOST) + forger.frame(Data(0, b"x"), BY_HOST))
    assert not host.is_open(BY_HOST)


# --- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [HOST, AGENT])
def test_an_unfinished_frame_is_held_and_nothing_more(role: str) -> None:
    side = at(role, "live")
    start = header(BY_CLASS[Open].kind, 4 if role == HOST else 3, side._ledger.received + 1, 0, MAX_PAYLOAD)
    before = side.held
    with memory_below(3 * MAX_PAYLOAD):
        side.receive(start)
        for _ in range(1023):
            assert side.receive(bytes(1024)) == []
    assert side.held - before == HEADER_SIZE + 1023 * 1024


def test_bytes_that_come_one_by_one_take_no_quadratic_time(host: Connection) -> None:
    frame = forged(host, Data(1, bytes(60_000)), BY_HOST)
    found = []
    for index in range(len(frame)):
        found += host.receive(frame[index : index + 1])
    assert len(found) == 1


def test_a_flood_of_the_smallest_legal_frames_takes_no_memory_here(host: Connection) -> None:
    forger = Forger(host)
    flood = [b"".join(forger.frame(Data(0, b"x"), BY_HOST) for _ in range(100)) for _ in range(200)]
    with memory_below(MIB):
        for chunk in flood:
            found = host.receive(chunk)
            assert len(found) == 100
            for received in found:
                host.consume(BY_HOST, received.cost)
            host.take_output()
            forger.ack = host._ledger.sent


def test_errors_repeat_nothing_that_the_peer_wrote(host: Connection) -> None:
    secret = "\x1b]0;owned\x07"
    for message in (Event(secret, {secret: secret}), Goodbye(secret), Fail(secret, secret)):
        side = at(HOST, "live")
        error = refused(side, forged(side, message, 99))
        assert "owned" not in error
        assert error.isprintable()
