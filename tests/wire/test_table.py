"""The tables are the protocol: every line of them is walked here, and everything that they do not list is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire.connection import HOST, PROTOCOL, Connection
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.frames import MAX_PAYLOAD, FrameReader, header
from dayfly.wire.messages import (
    ACCEPTOR,
    AGENT,
    BY_CLASS,
    BY_KIND,
    EITHER,
    LIMITS,
    MACHINE,
    OPENER,
    SEND,
    TABLE,
    Ack,
    Goodbye,
    Hello,
    Message,
    Open,
    Pong,
    Resume,
    Row,
    Welcome,
    decode,
    encode,
)
from dayfly.wire.states import (
    CLOSED,
    DETACHED,
    GREETING,
    LIVE,
    ORDINARY,
    QUIESCED,
    QUIESCING,
    RECEIVED,
    RESUMING,
    RULES,
    SENT,
    START,
    STATES,
    STEPS,
    TRANSITIONS,
)

from .peers import forged, messages, send, thorough
from .reached import BY_AGENT, BY_HOST, ROLES, SAMPLES, UNREACHABLE, at, channel_for


def snapshot(connection: Connection) -> object:
    channels = connection._channels._open
    flows = [(n, c.credit, c.allowance, c.taken, c.eof_sent, c.eof_received) for n, c in channels.items()]
    ledger = connection._ledger
    return (
        connection.state,
        connection.epoch,
        flows,
        list(connection._control.pings),
        (ledger.sent, ledger.received, ledger.unacked, len(ledger._output)),
    )


cases = [
    pytest.param(role, state, row, id=f"{role}-{state}-{row.cls.__name__}")
    for role in ROLES
    for state in STATES
    for row in TABLE
    if (role, state) not in UNREACHABLE
]


@pytest.mark.parametrize(("role", "state", "row"), cases)
def test_only_what_the_table_lists_may_be_sent_and_a_refusal_changes_nothing(role: str, state: str, row: Row) -> None:
    side = at(role, state)
    before = snapshot(side)
    expected = RULES[role, SENT].get((state, row.cls))
    channel = channel_for(row, role)
    if state in (GREETING, CLOSED) and channel == BY_AGENT:
        expected = None  # nothing that the agent opened exists yet, or any more
    if row.said_by == MACHINE or (row.cls is Resume and role == AGENT):
        expected = None  # nobody says this but the machine
    if expected is None:
        with pytest.raises(LocalProtocolError):
            send(side, row, SAMPLES[row.cls], channel)
        assert snapshot(side) == before
    else:
        send(side, row, SAMPLES[row.cls], channel)
        assert side.state == expected
        assert side.has_output


@pytest.mark.parametrize(("role", "state", "row"), cases)
def test_only_what_the_table_lists_may_arrive_and_anything_else_closes(role: str, state: str, row: Row) -> None:
    side = at(role, state)
    peer = AGENT if role == HOST else HOST
    expected = RULES[role, RECEIVED].get((state, row.cls))
    if row.cls is Resume and role == AGENT and expected:
        expected = LIVE  # it answers within the same call
    channel = channel_for(row, peer)
    if state == GREETING and (channel == BY_AGENT or row.cls in (Ack, Pong)):
        expected = None  # an agent that has said nothing yet has nothing acknowledged or answered
    ack = side._ledger._handed if row.cls in (Ack, Resume) else None
    message = Resume(1, side._ledger._handed) if row.cls is Resume else SAMPLES[row.cls]
    frame = forged(side, message, channel, ack=ack)
    if state == CLOSED:
        assert side.receive(frame) == []  # closed by this side: nothing is of interest any more
    elif expected is None:
        with pytest.raises(RemoteProtocolError):
            side.receive(frame)
        assert side.state == CLOSED
        with pytest.raises(RemoteProtocolError):
            side.receive(b"")
    else:
        side.receive(frame)
        assert side.state == expected


@pytest.mark.parametrize("row", [row for row in TABLE if not row.control and row.cls is not Open])
@pytest.mark.parametrize("role", ROLES)
def test_an_openers_word_is_refused_to_the_acceptor_and_the_other_way_round(role: str, row: Row) -> None:
    wrong = {1: 2, 2: 1}[channel_for(row, role)]
    peer = AGENT if role == HOST else HOST
    allowed = row.sender not in (OPENER, ACCEPTOR)
    side = at(role, LIVE)
    if row.said_by != MACHINE:
        if allowed:
            send(side, row, SAMPLES[row.cls], wrong)
        else:
            with pytest.raises(LocalProtocolError):
                send(side, row, SAMPLES[row.cls], wrong)
    frame = forged(side, SAMPLES[row.cls], {1: 2, 2: 1}[channel_for(row, peer)])
    if allowed:
        side.receive(frame)
    else:
        with pytest.raises(RemoteProtocolError, match="wrong side"):
            side.receive(frame)


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("role", ROLES)
def test_control_stays_on_channel_0_and_everything_else_off_it(role: str, row: Row) -> None:
    wrong = BY_HOST if row.control else 0
    for state in (START, LIVE, QUIESCED, DETACHED):
        side = at(role, state)
        if row.said_by == SEND:
            with pytest.raises(LocalProtocolError):
                side.send(SAMPLES[row.cls], wrong)
        with pytest.raises(RemoteProtocolError):
            side.receive(forged(side, SAMPLES[row.cls], wrong))


def test_the_table_has_no_two_lines_for_one_thing() -> None:
    assert len(BY_KIND) == len(BY_CLASS) == len(LIMITS) == len(TABLE)
    assert set(BY_CLASS) == set(Message.__subclasses__()) == set(SAMPLES)
    assert all(0 < row.kind <= 255 and row.limit <= MAX_PAYLOAD for row in TABLE)


def test_the_tables_agree_on_who_sends_what() -> None:
    for role, _, cls, way in TRANSITIONS:
        row = BY_CLASS[cls]
        assert row.control
        peer = AGENT if role == HOST else HOST
        assert row.sender in ((role if way == SENT else peer), EITHER)
    for row in TABLE:
        if row.sender in ROLES:
            assert row.cls in STEPS, "a role's own messages are steps: only transitions know roles"
        assert row.control or row.sender in (EITHER, OPENER, ACCEPTOR)
        assert row.numbered or row.control


def test_what_one_side_may_send_the_other_may_receive() -> None:
    """In the states that both can be in at that moment: a step is taken by the sender first."""
    for (role, way), states in ORDINARY.items():
        if way == SENT:
            peer = AGENT if role == HOST else HOST
            assert states == ORDINARY[peer, RECEIVED], role


@given(st.data())
@thorough(100)
@pytest.mark.parametrize("row", TABLE)
def test_every_message_survives_the_way_through_a_frame(row: Row, data: st.DataObject) -> None:
    message = data.draw(messages(row))
    payload = encode(message)
    reader = FrameReader(LIMITS)
    reader.feed(header(row.kind, 3, 4, 5, len(payload), getattr(message, "stream", 0)) + payload)
    frame = reader.next_frame()
    assert frame is not None
    assert (frame.kind, frame.channel, frame.seq, frame.ack) == (row.kind, 3, 4, 5)
    found = decode(BY_KIND[frame.kind], frame.payload, frame.stream)
    assert found == message
    assert hash(found) == hash(message)
    assert repr(found).isascii() or repr(found).isprintable()


WRONG = {int: ("1", 1.5, True, None), str: (b"x", 1, None), dict: ([], "x", None), bytes: ("x", None, 5)}


@pytest.mark.parametrize("row", [row for row in TABLE if row.fields])
def test_a_field_of_the_wrong_type_is_refused_before_it_is_written(row: Row) -> None:
    good = [getattr(SAMPLES[row.cls], name) for name, _ in row.fields]
    make: Any = row.cls
    for index, (_, kind) in enumerate(row.fields):
        for wrong in WRONG[kind]:
            with pytest.raises(LocalProtocolError):
                encode(make(*good[:index], wrong, *good[index + 1 :]))


@pytest.mark.parametrize("row", [row for row in TABLE if row.codec == "json" and row.fields])
def test_a_json_payload_has_exactly_the_tables_fields_and_types(row: Row) -> None:
    good = {int: b"1", str: b'"x"', dict: b"{}"}
    bad = {int: (b'"1"', b"1.0", b"true", b"null", b"[]"), str: (b"1", b"null", b"{}"), dict: (b"[]", b'"x"', b"null")}
    parts = {name: good[kind] for name, kind in row.fields}

    def payload(fields: dict[str, bytes]) -> bytes:
        return b"{" + b",".join(b'"%s":%s' % (name.encode(), text) for name, text in fields.items()) + b"}"

    decode(row, payload(parts))
    refused = [payload({**parts, "more": b"1"}), b"[]", b"null", b"", b"{}", payload(parts) + b"x"]
    refused += [payload({k: v for k, v in parts.items() if k != name}) for name in parts]
    refused += [payload({**parts, name: text}) for name, kind in row.fields for text in bad[kind]]
    for wrong in refused:
        with pytest.raises(RemoteProtocolError):
            decode(row, wrong)


@pytest.mark.parametrize("row", TABLE)
def test_a_payload_beyond_the_lines_limit_is_refused_by_its_header_alone(row: Row) -> None:
    reader = FrameReader(LIMITS)
    reader.feed(header(row.kind, 0, 1, 0, row.limit + 1))
    with pytest.raises(RemoteProtocolError, match="announced"):
        reader.next_frame()
    reader = FrameReader(LIMITS)
    reader.feed(header(row.kind, 0, 1, 0, row.limit))
    assert (reader.next_frame() is not None) == (row.limit == 0)


@pytest.mark.parametrize("row", [row for row in TABLE if row.codec == "json" and row.fields])
def test_a_payload_beyond_the_lines_limit_is_not_written(row: Row) -> None:
    make: Any = row.cls
    big: dict[type, Any] = {int: 1, str: "x" * row.limit, dict: {"x": "x" * row.limit}}
    if any(kind in (str, dict) for _, kind in row.fields):
        with pytest.raises(LocalProtocolError, match="allowed"):
            encode(make(*(big[kind] for _, kind in row.fields)))


@pytest.mark.parametrize("kind", [0, *range(len(TABLE) + 1, 256)])
def test_a_kind_that_is_not_in_the_table_is_refused_at_once(kind: int) -> None:
    reader = FrameReader(LIMITS)
    reader.feed(header(kind, 0, 1, 0, 0))
    with pytest.raises(RemoteProtocolError, match="no such kind"):
        reader.next_frame()


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("row", TABLE)
def test_reserved_bits_stream_numbers_and_sequence_numbers_are_exact(role: str, row: Row) -> None:
    peer = AGENT if role == HOST else HOST
    message = SAMPLES[row.cls]
    states = [state for state in (START, GREETING, LIVE, RESUMING, QUIESCING, DETACHED)
              if (state, row.cls) in RULES[role, RECEIVED] and (role, state) not in UNREACHABLE]  # fmt: skip
    for state in states[-1:]:
        channel = channel_for(row, peer)
        for spoil in (_reserved_bit, _stream_number) if row.codec not in ("data", "stream") else (_reserved_bit,):
            side = at(role, state)
            with pytest.raises(RemoteProtocolError):
                side.receive(spoil(forged(side, message, channel)))
        side = at(role, state)
        number = side._ledger.received
        for seq in {number, number + 2, 0, 1 << 63} - {number + 1} if row.numbered else {number + 1, 1}:
            side = at(role, state)
            with pytest.raises(RemoteProtocolError, match=r"frame \d+ after|with a number"):
                side.receive(forged(side, message, channel, seq=seq))


def _reserved_bit(frame: bytes) -> bytes:
    return frame[:11] + b"\x01" + frame[12:]


def _stream_number(frame: bytes) -> bytes:
    return frame[:9] + b"\x01" + frame[10:]


@pytest.mark.parametrize("role", ROLES)
def test_an_acknowledgement_never_runs_ahead_nor_back(role: str) -> None:
    for wrong in ("ahead", "of what is not written", "back"):
        side = at(role, LIVE)
        side.receive(forged(side, Goodbye(""), ack=side._ledger.sent))
        if wrong == "of what is not written":
            side.send(Goodbye("still here"))  # a peer that has not read it cannot have it
            ack = side._ledger.sent
        else:
            ack = side._ledger.sent + 1 if wrong == "ahead" else 0
        with pytest.raises(RemoteProtocolError, match="acknowledged"):
            side.receive(forged(side, Goodbye(""), ack=ack))


def test_the_nonce_and_the_protocol_version_must_match() -> None:
    for wrong in (Welcome(PROTOCOL, "other", {}), Welcome(PROTOCOL + 1, "nonce", {})):
        host, agent = at(HOST, GREETING), at(AGENT, GREETING)
        with pytest.raises(RemoteProtocolError):
            host.receive(forged(host, wrong))
        before = snapshot(agent)
        with pytest.raises(LocalProtocolError):
            agent.send(wrong)
        assert snapshot(agent) == before
    agent = Connection(AGENT)
    with pytest.raises(RemoteProtocolError):
        agent.receive(forged(agent, Hello(PROTOCOL + 1, "nonce", {})))
    with pytest.raises(LocalProtocolError):
        Connection(HOST).send(Hello(PROTOCOL + 1, "nonce", {}))


def test_there_are_two_roles_and_no_message_but_the_tables() -> None:
    with pytest.raises(LocalProtocolError):
        Connection("gateway")
    with pytest.raises(LocalProtocolError):
        at(HOST, LIVE).send("hello")  # type: ignore[arg-type]
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
