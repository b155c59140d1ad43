"""Windows: never exceeded, never dead, never in the way of an interrupt or of another channel."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire import flow
from dayfly.wire.connection import HOST, MAX_HELD, Connection, Received
from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError
from dayfly.wire.frames import MAX_PAYLOAD
from dayfly.wire.messages import Ack, Cancel, Data, Eof, Event, Finish, Goodbye, Hello, Message, Ping, Pong, Welcome

from .peers import Forger, Pair, forged, live, thorough, until_refused


def opened(pair: Pair, many: int = 1) -> list[int]:
    channels = [pair.host.open("execute", {}) for _ in range(many)]
    pair.settle()
    return channels


def consume_all(side: Connection, found: list[Received]) -> int:
    for received in found:
        side.consume(received.channel, received.cost)
    return sum(len(received.message.data) for received in found if isinstance(received.message, Data))


@given(
    total=st.integers(1, 3_000_000),
    piece=st.integers(1, 1 << 20),
    chunk=st.integers(20_000, 1 << 20),
    raised=st.booleans(),
    late=st.integers(0, 5),
)
@thorough(60)
def test_a_transfer_of_any_size_in_any_pieces_arrives_when_the_reader_consumes(
    total: int, piece: int, chunk: int, raised: bool, late: int
) -> None:
    pair = live()
    [channel] = opened(pair)
    if raised:
        pair.agent.raise_window(channel)
    piece = max(piece, total // 2000)
    sent = arrived = 0
    unread: list[list[Received]] = []
    for _ in range(20_000):
        while sent < total and (size := min(piece, total - sent, pair.host.sendable(channel))):
            pair.host.send_data(channel, 0, bytes(size))
            sent += size
        pair.write(pair.host)
        unread.append(pair.read(pair.agent, chunk))
        if len(unread) > late:
            arrived += consume_all(pair.agent, unread.pop(0))
        pair.pass_on(pair.agent)
        if arrived == total:
            break
    assert arrived == total


def test_an_unread_channel_takes_its_window_and_no_more() -> None:
    pair = live()
    [channel] = opened(pair)
    while size := pair.host.sendable(channel):
        pair.host.send_data(channel, 0, bytes(min(size, 1000)))
    found = pair.pass_on(pair.host)
    held = sum(received.cost + flow.FRAME_COST for received in found)
    assert flow.WINDOW - flow.EVENT_RESERVE - 1300 <= held <= flow.WINDOW - flow.EVENT_RESERVE
    with pytest.raises(LocalProtocolError):
        pair.host.send_data(channel, 0, b"x")
    assert consume_all(pair.agent, found)
    pair.settle()
    assert pair.host.sendable(channel) == flow.WINDOW - flow.EVENT_RESERVE - flow.FRAME_COST


def test_many_tiny_pieces_are_charged_for_what_they_cost_to_hold() -> None:
    pair = live()
    [channel] = opened(pair)
    sent = 0
    while pair.host.sendable(channel):
        pair.host.send_data(channel, 0, b"x")
        sent += 1
    assert sent <= flow.WINDOW // flow.FRAME_COST


@pytest.mark.parametrize("size", [1, 20_000])
def test_a_process_can_be_stopped_whose_input_nobody_reads(size: int) -> None:
    pair = live()
    [channel] = opened(pair)
    while room := pair.host.sendable(channel):
        pair.host.send_data(channel, 0, bytes(min(size, room)))
    for n in range(1000):  # the agent takes events as they come, and never the input
        pair.host.send(Event("resize", {"rows": n, "cols": 80}), channel)
        for received in pair.pass_on(pair.host):
            if isinstance(received.message, Event):
                pair.agent.consume(channel, received.cost)
        pair.pass_on(pair.agent)
    pair.host.send(Event("stop", {"grace": 1.0}), channel)
    pair.host.send(Event("change", {"path": "\udcff" * 4096, "kind": "modified"}), channel)  # the largest there is
    pair.host.send(Cancel(), channel)
    kinds = [type(received.message) for received in pair.pass_on(pair.host)]
    assert kinds == [Event, Event, Cancel]


def test_events_that_nobody_takes_are_held_back_on_the_senders_side() -> None:
    pair = live()
    [channel] = opened(pair)
    event = Event("change", {"path": "x", "kind": "modified"})
    said = until_refused(lambda: pair.agent.send(event, channel), LocalProtocolError, "window")
    assert flow.WINDOW // 400 < said < flow.WINDOW // flow.FRAME_COST
    found = pair.pass_on(pair.agent)
    assert pair.pass_on(pair.host) == []  # no credit
    consume_all(pair.host, found)
    pair.pass_on(pair.host)
    pair.agent.send(event, channel)


@pytest.mark.parametrize("flooders", [1, 8, 62])
@pytest.mark.parametrize("read", [True, False])
def test_a_flood_on_other_channels_starves_none(flooders: int, read: bool) -> None:
    """The flooders are always served first, over a stream that takes 64 KiB at a time; windows raised as far as they go."""
    pair = live()
    *floods, quiet = opened(pair, flooders + 1)
    for channel in floods:
        pair.agent.raise_window(channel)
    pair.pass_on(pair.agent)
    arrived = rounds = sent = 0
    for rounds in itertools.count():
        for channel in floods:
            while size := pair.host.sendable(channel):
                pair.host.send_data(channel, 0, bytes(min(size, 256 * 1024)))
        if size := min(pair.host.sendable(quiet), 500_000 - sent):
            pair.host.send_data(quiet, 0, bytes(size))
            sent += size
        pair.write(pair.host)
        found = pair.read(pair.agent, 64 * 1024)
        arrived += consume_all(pair.agent, [received for received in found if received.channel == quiet])
        if read:
            consume_all(pair.agent, [received for received in found if received.channel != quiet])
        pair.pass_on(pair.agent)
        if arrived == 500_000:
            break
        assert rounds < 5000
    assert pair.host._ledger.unacked <= flow.MAX_UNACKED_ALL


def test_windows_are_raised_while_the_pool_lasts_and_it_is_refilled_by_ends() -> None:
    pair = live()
    channels = opened(pair, 10)
    for channel in channels:
        pair.agent.raise_window(channel)
    pair.pass_on(pair.agent)
    rooms = [pair.host._channels.get(channel).credit for channel in channels]
    assert rooms[:8] == [flow.BULK_WINDOW] * 8
    assert sum(rooms) == flow.POOL + 10 * flow.WINDOW
    pair.agent.raise_window(channels[9])
    assert not pair.agent.has_output
    for channel in channels[:3]:
        pair.agent.send(Finish({}), channel)
    pair.agent.raise_window(channels[9], flow.BULK_WINDOW)
    pair.settle()
    assert pair.host._channels.get(channels[9]).credit == flow.BULK_WINDOW


def test_a_window_raised_before_the_greeting_is_over_counts_after_it() -> None:
    pair = Pair()
    pair.host.send(Hello(1, "n", {}))
    channel = pair.host.open("file.write", {})
    pair.host.send_data(channel, 0, bytes(pair.host.sendable(channel)))
    pair.host.send(Ping(5))
    found = pair.pass_on(pair.host)
    pair.agent.raise_window(channel)
    consume_all(pair.agent, found)
    assert not pair.agent.has_output
    pair.agent.send(Welcome(1, "n", {}))
    answers = [type(received.message).__name__ for received in pair.pass_on(pair.agent)]
    assert answers == ["Welcome", "Pong", "Credit"]
    assert pair.host._channels.get(channel).credit == flow.BULK_WINDOW


def test_no_data_is_added_to_what_calls_have_filled() -> None:
    pair = live()
    asked = [pair.agent.open("port.connect", {}) for _ in range(flow.MAX_CHANNELS)]
    [channel] = opened(pair)
    while asked:
        pair.host.send(Finish({"x": "x" * 300_000}), asked.pop())
    assert pair.host.held > flow.MAX_UNACKED_CALLS
    assert pair.host.sendable(channel) == 0
    pair.settle()
    assert pair.host.sendable(channel) > 0


@pytest.mark.parametrize("size", [1, 100, MAX_PAYLOAD])
def test_a_peer_that_acknowledges_nothing_makes_us_hold_so_much_and_no_more(size: int) -> None:
    """It grants the largest windows, reads nothing back, and the application would send for ever."""
    pair = live()
    asked = [pair.agent.open("port.connect", {}) for _ in range(flow.MAX_CHANNELS)]
    channels = opened(pair, flow.MAX_CHANNELS)
    for channel in channels:
        pair.host._channels.get(channel).credit = flow.MAX_CREDIT
    for channel in channels:
        while room := pair.host.sendable(channel):
            pair.host.send_data(channel, 0, bytes(min(room, size)))
    everybody = flow.MAX_UNACKED + flow.MAX_CHANNELS * flow.FAIR_SHARE
    assert pair.host.held <= everybody + MAX_PAYLOAD
    event = Event("resize", {"x": "x" * 20_000})
    assert until_refused(lambda: pair.host.send(event, channels[0]), LocalProtocolError, "not acknowledged") > 100
    assert not pair.host.can_open
    with pytest.raises(LocalProtocolError):
        pair.host.open("execute", {})
    most = []

    def answer() -> None:
        pair.host.send(Finish({"x": "x" * 500_000}), asked.pop())
        most.append(pair.host.held)

    until_refused(answer, RemoteProtocolError, "acknowledges nothing")
    assert max(most) > flow.MAX_UNACKED_ALL
    assert max(most) <= MAX_HELD
    assert pair.host.state == "closed"
    assert pair.host.held == 0


def test_what_is_acknowledged_is_forgotten_at_once() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.host.send_data(channel, 0, bytes(50_000))
    assert pair.host.held > 50_000
    pair.pass_on(pair.host)
    pair.agent.send(Ping(1))
    pair.pass_on(pair.agent)
    assert pair.host.held == 0


def test_acknowledgements_come_by_themselves_when_there_is_nothing_else_to_say() -> None:
    pair = live()
    channels = opened(pair, 40)
    pair.settle()
    before = pair.host.held
    for channel in channels:
        pair.host.send(Eof(0), channel)
        pair.host.send(Eof(1), channel)
    pair.pass_on(pair.host)
    assert pair.agent.has_output
    assert pair.pass_on(pair.agent) == []  # an Ack is no news to the application
    assert pair.host.held <= before
    assert not pair.agent.has_output


def test_much_data_is_acknowledged_before_anybody_consumes_it() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.agent.raise_window(channel)
    pair.settle()
    for _ in range(8):
        pair.host.send_data(channel, 0, bytes(flow.ACK_BYTES // 4))
        pair.pass_on(pair.host)
        assert pair.pass_on(pair.agent) == []
        assert pair.host.held < flow.ACK_BYTES + 4 * flow.FRAME_COST


def test_acknowledgements_do_not_pile_up_while_the_peer_does_not_read() -> None:
    pair = live()
    for channel in opened(pair, flow.MAX_CHANNELS):
        for stream in range(256):
            pair.host.send(Eof(stream), channel)
        pair.write(pair.host)
        pair.read(pair.agent)
    assert pair.agent.has_output
    assert len(pair.agent.take_output()) == 1


def test_the_channels_of_each_side_are_counted_apart() -> None:
    pair = live()
    for side in (pair.host, pair.agent):
        numbers = [side.open("port.connect", {}) for _ in range(flow.MAX_CHANNELS)]
        assert not side.can_open
        with pytest.raises(LocalProtocolError, match="channels are open"):
            side.open("port.connect", {})
        assert {number % 2 for number in numbers} == {1 if side is pair.host else 0}
    pair.settle()
    pair.agent.send(Finish({}), 1)
    assert not pair.host.can_open
    pair.settle()
    assert pair.host.can_open
    assert pair.host.open("port.connect", {}) == 2 * flow.MAX_CHANNELS + 1


def test_channel_numbers_run_out_before_they_repeat() -> None:
    pair = live()
    pair.host._channels._next = flow.MAX_CHANNEL
    pair.agent._channels._last = flow.MAX_CHANNEL - 2
    assert pair.host.open("usage", {}) == flow.MAX_CHANNEL
    pair.settle()
    assert not pair.host.can_open
    with pytest.raises(LocalProtocolError, match="used up"):
        pair.host.open("usage", {})


def test_more_cannot_be_consumed_than_has_arrived() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.host.send_data(channel, 0, b"12345")
    pair.pass_on(pair.host)
    for wrong in (6, -1):
        with pytest.raises(LocalProtocolError):
            pair.agent.consume(channel, wrong)
    pair.agent.consume(channel, 5)
    with pytest.raises(LocalProtocolError):
        pair.agent.consume(channel, 1)
    pair.agent.consume(channel + 100, 5)  # late: the channel is gone


def test_frames_that_are_consumed_together_are_given_back_together() -> None:
    pair = live()
    [channel] = opened(pair)
    while pair.host.sendable(channel) >= 100:
        pair.host.send_data(channel, 0, bytes(100))
    found = pair.pass_on(pair.host)
    pair.agent.consume(channel, sum(received.cost for received in found))
    pair.settle()
    assert pair.host.sendable(channel) == flow.WINDOW - flow.EVENT_RESERVE - flow.FRAME_COST


@pytest.mark.parametrize("data", [b"", bytearray(), memoryview(b"")])
def test_data_is_bytes_and_some(data: bytes) -> None:
    pair = live()
    [channel] = opened(pair)
    for wrong in (lambda: pair.host.send_data(channel, 0, data), lambda: pair.host.send_data(channel, 256, b"x"),
                  lambda: pair.host.send_data(channel, -1, b"x"), lambda: pair.host.send_data(99, 0, b"x"),
                  lambda: pair.host.send(Eof(256), channel)):  # fmt: skip
        with pytest.raises(LocalProtocolError):
            wrong()
    pair.host.send_data(channel, 0, memoryview(bytearray(b"\0\0\0\x01")).cast("I"))
    assert pair.pass_on(pair.host)[0].message == Data(0, b"\0\0\0\x01")


def test_a_stream_ends_once_and_the_others_go_on() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.host.send(Eof(255), channel)
    for wrong in (lambda: pair.host.send(Eof(255), channel), lambda: pair.host.send_data(channel, 255, b"x")):
        with pytest.raises(LocalProtocolError):
            wrong()
    pair.host.send_data(channel, 254, b"x")
    pair.pass_on(pair.host)
    for wrong in (Eof(255), Data(255, b"x")):
        pair = live()
        [channel] = opened(pair)
        pair.agent.receive(forged(pair.agent, Eof(255), channel))
        with pytest.raises(RemoteProtocolError, match="end"):
            pair.agent.receive(forged(pair.agent, wrong, channel))


def test_pings_are_answered_in_order_and_only_so_many_wait() -> None:
    pair = live()
    for token in range(flow.MAX_PINGS):
        pair.host.send(Ping(token))
    with pytest.raises(LocalProtocolError, match="not answered"):
        pair.host.send(Ping(99))
    assert pair.pass_on(pair.host) == []  # the machine answers by itself
    found = [received.message for received in pair.pass_on(pair.agent)]
    assert found == [Pong(token) for token in range(flow.MAX_PINGS)]
    pair.host.send(Ping(99))


def test_a_second_cancel_is_not_sent_and_a_second_goodbye_is_refused() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.host.send(Cancel(), channel)
    pair.host.send(Cancel(), channel)
    assert [received.message for received in pair.pass_on(pair.host)] == [Cancel()]
    pair.agent.send(Goodbye("done"))
    with pytest.raises(LocalProtocolError):
        pair.agent.send(Goodbye("done"))
    assert [received.message for received in pair.pass_on(pair.agent)] == [Goodbye("done")]


@pytest.mark.parametrize("message", [Cancel(), Goodbye("")])
def test_what_is_said_once_is_not_heard_twice(message: Message) -> None:
    pair = live()
    [channel] = opened(pair)
    forger = Forger(pair.agent)
    number = channel if isinstance(message, Cancel) else 0
    pair.agent.receive(forger.frame(message, number))
    with pytest.raises(RemoteProtocolError):
        pair.agent.receive(forger.frame(message, number))


def test_an_acceptor_hears_nothing_more_of_a_channel_that_it_has_ended() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.agent.send(Finish({}), channel)
    pair.host.send_data(channel, 0, bytes(1000))  # the end is still on its way
    pair.host.send(Event("resize", {}), channel)
    pair.host.send(Eof(0), channel)
    pair.host.send(Cancel(), channel)
    assert pair.pass_on(pair.host) == []
    assert not pair.agent.is_open(channel)
    pair.pass_on(pair.agent)
    assert not pair.host.is_open(channel)
    assert pair.host.sendable(channel) == 0
    with pytest.raises(LocalProtocolError, match="not open"):
        pair.host.send(Cancel(), channel)


def test_an_end_is_the_last_word_even_when_credit_was_due() -> None:
    pair = live()
    [channel] = opened(pair)
    pair.host.send_data(channel, 0, bytes(pair.host.sendable(channel)))
    consume_all(pair.agent, pair.pass_on(pair.host))
    pair.agent.raise_window(channel)
    pair.agent.send(Finish({}), channel)
    assert [received.message for received in pair.pass_on(pair.agent)] == [Finish({})]
    assert pair.host.state == "live"


def test_the_states_of_both_ends_can_be_read_from_their_repr() -> None:
    pair = live()
    opened(pair)
    assert "host live" in repr(pair.host)
    assert "channels=1" in repr(pair.host)
    assert repr(Received(0, Ack())) == "Received(0, Ack())"
    assert repr(Received(3, Data(1, b"\x1b[2J" * 100))).count("\x1b") == 0
    assert repr(Connection(HOST)).startswith("<Connection host start")
