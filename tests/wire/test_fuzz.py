"""Any bytes, in any state, in any pieces: messages or one ``RemoteProtocolError``, at once and in bounded memory."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire.connection import AGENT, HOST, LIVE, Connection
from dayfly.wire.frames import HEADER_SIZE, MAX_PAYLOAD, header
from dayfly.wire.messages import LIMITS, TABLE, Message, Row

from .peers import feed, forged, messages, thorough
from .reached import BY_AGENT, BY_HOST, REACHABLE, ROLES, SAMPLES, at, channel_for

EDGES = [0, 1, 2, 3, 4, 5, 255, 256, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1]


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in EDGES if n < 1 << bits]) | st.integers(0, (1 << bits) - 1)


@pytest.mark.parametrize(("role", "state"), REACHABLE)
@given(data=st.binary(max_size=300))
@thorough(60)
def test_arbitrary_bytes_are_judged(role: str, state: str, data: bytes) -> None:
    feed(at(role, state), data)


headers = st.builds(
    header, st.integers(0, 20), numbers(32), numbers(64), numbers(64), numbers(21), st.sampled_from([0, 0, 0, 1, 255])
)


@pytest.mark.parametrize(("role", "state"), REACHABLE)
@given(data=st.lists(st.tuples(headers, st.binary(max_size=100)), max_size=4))
@thorough(60)
def test_arbitrary_headers_are_judged(role: str, state: str, data: list[tuple[bytes, bytes]]) -> None:
    feed(at(role, state), b"".join(head + payload for head, payload in data))


@st.composite
def spoiled(draw: st.DrawFn, side: Connection) -> bytes:
    """A frame that is right in most ways, with a few bits turned or bytes cut, doubled or put in."""
    row = draw(st.sampled_from(TABLE))
    message: Message = draw(messages(row))
    channel = draw(st.sampled_from([0, BY_HOST, BY_AGENT, 3, 4]))
    frame = bytearray(forged(side, message, channel, ack=draw(st.none() | st.integers(0, 6))))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(frame) - 1))
        match draw(st.sampled_from(["turn", "cut", "insert", "double"])):
            case "turn":
                frame[position] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del frame[position : position + draw(st.integers(1, 8))]
            case "insert":
                frame[position:position] = draw(st.binary(min_size=1, max_size=8))
            case "double":
                frame += frame[position:]
        if not frame:
            break
    return bytes(frame)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("state", [LIVE, "greeting", "quiescing", "quiesced", "resuming", "detached"])
@given(data=st.data())
@thorough(60)
def test_spoiled_frames_are_judged_and_alike_however_they_are_cut(role: str, state: str, data: st.DataObject) -> None:
    if (role, state) not in REACHABLE:
        return
    side, other = at(role, state), at(role, state)
    stream = b"".join(data.draw(spoiled(side)) for _ in range(data.draw(st.integers(1, 3))))
    found, broken = feed(side, stream)
    again, broken_too = feed(other, stream, data.draw(st.integers(1, 50)))
    assert broken == broken_too
    if not broken:
        assert list(map(repr, found)) == list(map(repr, again))
        assert repr(side) == repr(other)


@pytest.mark.parametrize("role", ROLES)
@given(data=st.data())
@thorough(80)
def test_sound_frames_in_any_order_are_judged(role: str, data: st.DataObject) -> None:
    """Every frame alone is what a peer could say; whether it may say it now is another question."""
    side = at(role, LIVE)
    peer = AGENT if role == HOST else HOST
    for _ in range(12):
        row: Row = data.draw(st.sampled_from(TABLE))
        channel = data.draw(st.sampled_from([channel_for(row, peer), 1, 2, 3, 4, 6]))
        _, broken = feed(side, forged(side, data.draw(messages(row)), channel))
        if broken:
            break


@pytest.mark.parametrize("role", ROLES)
def test_large_garbage_takes_no_more_memory_than_a_frame_of_json_may(role: str) -> None:
    """Full frames of every kind with random, JSON-like and deep payloads."""
    chance = random.Random(7)
    alphabet = b'[]{}",:\\0123456789.eE-+ntf \xff'
    fillings = (
        lambda size: chance.randbytes(size),
        lambda size: bytes(chance.choices(alphabet, k=min(size, 20_000))) * (size // 20_000 + 1),
        lambda size: b"[" * size,
        lambda size: b'{"value":' * (size // 9 + 1),
        lambda size: b'{"value":[' + b"{}," * (size // 3),
        lambda size: b'{"value":"' + b"\\ud800" * (size // 6),
    )
    begun = time.process_time()
    for row in TABLE:
        for filling in fillings:
            side = at(role, LIVE)
            payload = filling(row.limit)[: row.limit]
            frame = forged(side, SAMPLES[row.cls], 0 if row.control else 1, payload=payload)
            tracemalloc.start()
            try:
                feed(side, frame)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 16 * MAX_PAYLOAD
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("kind", LIMITS)
def test_a_header_cannot_announce_what_would_be_waited_for_in_vain(kind: int) -> None:
    side = at(HOST, LIVE)
    assert feed(side, header(kind, 0, 4, 3, LIMITS[kind] + 1)) == ([], True)
    side = at(HOST, LIVE)
    assert feed(side, b"\0" * (HEADER_SIZE - 1)) == ([], False)
