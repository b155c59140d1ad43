"""Two connections and the streams between them, held in the test's hand; forged frames; strategies for messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dayfly.wire import flow
from dayfly.wire.connection import CLOSED, MAX_HELD, PROTOCOL, Connection, Received
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.frames import header
from dayfly.wire.messages import AGENT, BY_CLASS, HOST, MAX_STREAM, MAX_U32, Data, Event, Hello, Message, Row, Welcome
from dayfly.wire.messages import encode as payload_of
from dayfly.wire.payloads import MAX_INT, MIN_INT


def thorough(examples: int, **more: Any) -> settings:
    """The profile of all property tests here. No deadline: the machine is shared. No database: no files in the tree."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **more,
    )


class Pair:
    """A host and an agent, each with the bytes that are on their way to it."""

    def __init__(self) -> None:
        self.host = Connection(HOST)
        self.agent = Connection(AGENT)
        self.to_agent = bytearray()
        self.to_host = bytearray()

    def other(self, side: Connection) -> Connection:
        return self.agent if side is self.host else self.host

    def way_to(self, side: Connection) -> bytearray:
        return self.to_host if side is self.host else self.to_agent

    def write(self, side: Connection) -> None:
        """Put what ``side`` has to say on its way."""
        announced = side.has_output
        buffers = side.take_output()
        assert announced == bool(buffers), "whoever waits for output must not wait in vain, nor spin"
        for buffer in buffers:
            self.way_to(self.other(side)).extend(buffer)

    def read(self, side: Connection, size: int | None = None) -> list[Received]:
        """Let the next ``size`` bytes (all by default) arrive at ``side``."""
        way = self.way_to(side)
        data = bytes(way if size is None else way[:size])
        del way[: len(data)]
        return side.receive(data) if data else []

    def pass_on(self, side: Connection) -> list[Received]:
        """Whatever ``side`` has to say arrives."""
        self.write(side)
        return self.read(self.other(side))

    def settle(self) -> list[Received]:
        """Carry bytes to and fro until both are silent; everything that arrived. Fails if they never are."""
        found = []
        for _ in range(1000):
            found += self.pass_on(self.host)
            found += self.pass_on(self.agent)
            if not (self.host.has_output or self.agent.has_output):
                return found
        raise AssertionError("they never stop talking")

    def cut(self) -> None:
        """The stream is gone, with everything on it."""
        self.to_agent.clear()
        self.to_host.clear()
        self.host.detach()
        self.agent.detach()


def live(pair: Pair | None = None) -> Pair:
    """A pair after the handshake."""
    pair = pair or Pair()
    pair.host.send(Hello(PROTOCOL, "nonce", {}))
    pair.pass_on(pair.host)
    pair.agent.send(Welcome(PROTOCOL, "nonce", {}))
    pair.pass_on(pair.agent)
    return pair


def forged(
    to: Connection,
    message: Message,
    channel: int = 0,
    *,
    seq: int | None = None,
    ack: int | None = None,
    payload: bytes | None = None,
) -> bytes:
    """A frame as a peer of ``to`` could write it now, whatever its own machine would say to that."""
    row = BY_CLASS[type(message)]
    ledger = to._ledger
    payload = payload_of(message) if payload is None else payload
    seq = seq if seq is not None else (ledger.received + 1 if row.numbered else 0)
    ack = ledger.sent - len(ledger._kept) if ack is None else ack
    return header(row.kind, channel, seq, ack, len(payload), getattr(message, "stream", 0)) + payload


class Forger:
    """Writes a long run of frames to ``to`` without asking it anything: its numbers go on by themselves."""

    def __init__(self, to: Connection) -> None:
        self._to = to
        self._seq = itertools.count(to._ledger.received + 1)
        self.ack = to._ledger.sent - len(to._ledger._kept)

    def frame(self, message: Message, channel: int = 0, payload: bytes | None = None) -> bytes:
        seq = next(self._seq) if BY_CLASS[type(message)].numbered else 0
        return forged(self._to, message, channel, seq=seq, ack=self.ack, payload=payload)


def send(side: Connection, row: Row, message: Any, channel: int) -> None:
    """Say ``message`` through the one method that it is said by."""
    if row.said_by == "open":
        side.open(message.op, message.params)
    elif row.said_by == "send_data":
        side.send_data(channel, message.stream, message.data)
    elif row.said_by == "resume":
        side.resume()
    else:
        side.send(message, channel)


def window_of(message: Message) -> int:
    """What a message takes of its channel's window."""
    if isinstance(message, Data):
        return len(message.data) + flow.FRAME_COST
    return len(payload_of(message)) + flow.FRAME_COST if isinstance(message, Event) else 0


def until_refused(call: Callable[[], object], error: type[Exception], why: str) -> int:
    """How often it could be called before it raised."""
    for times in range(1_000_000):
        try:
            call()
        except error as refusal:
            if why not in str(refusal):
                raise
            return times
    raise AssertionError("never refused")


def feed(side: Connection, data: bytes, size: int = 1 << 30) -> tuple[list[Received], bool]:
    """Give ``data`` in pieces: what was found, and whether it was refused. Any other exception is the test's failure."""
    found: list[Received] = []
    refusal = ""
    for start in range(0, len(data), size):
        try:
            found += side.receive(data[start : start + size])
        except RemoteProtocolError as error:
            refusal = str(error)
            break
    assert side.held <= MAX_HELD
    if refusal:
        assert refusal.isprintable()
        assert len(refusal) < 200
        assert side.state == CLOSED
        assert side.held == 0
        assert not side.has_output
    side.take_output()
    return found, bool(refusal)


# --- strategies ---------------------------------------------------------------------------------------------------

texts = st.text(st.characters(), max_size=30)  # lone surrogates and NUL included
numbers = st.integers(MIN_INT, MAX_INT) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)

_BY_TYPE: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(MIN_INT, MAX_INT),
    str: texts,
    dict: objects,
    bytes: st.binary(min_size=1, max_size=2000),
}
_BY_CODEC: dict[str, st.SearchStrategy[Any]] = {
    "u32": st.integers(0, MAX_U32),
    "stream": st.integers(0, MAX_STREAM),
}


def messages(row: Row) -> st.SearchStrategy[Message]:
    """All messages of one line of the table."""
    fields = []
    for name, kind in row.fields:
        codec = "stream" if name == "stream" else row.codec
        fields.append(_BY_CODEC[codec] if codec in _BY_CODEC else _BY_TYPE[kind])
    make: Callable[..., Message] = row.cls
    return st.builds(make, *fields)
