"""The host's side of the stream: any bytes in any state, and frames whose numbers are right and all else is not."""

from __future__ import annotations

import itertools

from dayfly.wire import channels, connection, control, delivery, flow, frames, messages, payloads
from dayfly.wire.connection import HOST, Connection
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.frames import header
from dayfly.wire.messages import AGENT, TABLE, Data, Event, encode
from tests.fuzz.target import MIB, Target, pieces
from tests.wire.peers import feed, forged
from tests.wire.reached import REACHABLE, SAMPLES, at, channel_for

STATES = tuple(state for role, state in REACHABLE if role == HOST)
PREAMBLE = 3  # the state, and two sizes of pieces
RECORD = 5  # of a frame in short: kind, channel, stream, length in two bytes


def any_bytes(data: bytes) -> None:
    """In one piece and in several: the same messages, or refused both times."""
    state, sizes, said = data[:1], data[1:PREAMBLE], data[PREAMBLE:]
    one, other = _begun(state), _begun(state)
    found, refused = feed(one, said)
    again = []
    refused_too = False
    for piece in pieces(said, sizes):
        more, refused_too = feed(other, piece)
        again += more
        if refused_too:
            break
    assert refused == refused_too, "cut in another way it is judged in another way"
    if refused:
        _stays_refused(one)
    else:
        assert repr(found) == repr(again)
        assert repr(one) == repr(other)


def _begun(state: bytes) -> Connection:
    return at(HOST, STATES[state[0] % len(STATES)] if state else "live")


def _stays_refused(side: Connection) -> None:
    try:
        side.receive(b"")
    except RemoteProtocolError:
        return
    raise AssertionError("what was refused is heard again")


def frames_in_short(data: bytes) -> None:
    """Numbers and acknowledgements are those of an honest peer, so that what is behind them is reached."""
    side = _begun(data[:1])
    sequence = itertools.count(side._ledger.received + 1)
    for kind, channel, stream, payload in _records(data[1:]):
        row = TABLE[kind % len(TABLE)]
        acknowledged = side._ledger.sent - len(side._ledger._kept)
        number = next(sequence) if row.numbered else 0
        frame = header(row.kind, channel, number, acknowledged, len(payload), stream) + payload
        found, refused = feed(side, frame)
        if refused:
            break
        for one in found:
            assert isinstance(one.message, row.cls)
            assert (one.cost > 0) == isinstance(one.message, Data | Event)
            side.consume(one.channel, one.cost)


def _records(data: bytes) -> list[tuple[int, int, int, bytes]]:
    found, position = [], 0
    while position + RECORD <= len(data):
        kind, channel, stream, *size_bytes = data[position : position + RECORD]
        size = int.from_bytes(size_bytes, "big")
        position += RECORD
        found.append((kind, channel % 8, stream % 64, data[position : position + size]))
        position += size
    return found


def _seeds() -> tuple[bytes, ...]:
    """In each state one message of each kind."""
    found = []
    for number, state in enumerate(STATES):
        side = at(HOST, state)
        begin = bytes([number, 0, 7])
        for row in TABLE:
            found.append(begin + forged(side, SAMPLES[row.cls], channel_for(row, AGENT)))
    return tuple(found)


def _short_seeds() -> tuple[bytes, ...]:
    live = STATES.index("live")
    rows = [(number, channel_for(row, AGENT), encode(SAMPLES[row.cls])) for number, row in enumerate(TABLE)]
    records = [bytes([kind, channel, 0]) + len(payload).to_bytes(2, "big") + payload for kind, channel, payload in rows]
    return (*(bytes([live]) + record for record in records), bytes([live]) + b"".join(records))


_READS = (channels, connection, control, delivery, flow, frames, messages, payloads)

TARGETS = (
    Target("stream", any_bytes, _READS, _seeds(), memory=8 * MIB, examples=800),
    Target("frames", frames_in_short, _READS, _short_seeds(), memory=8 * MIB, examples=800),
)
