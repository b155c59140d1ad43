"""Every message there is, in one table: kind, who may send it, on which channel, and how its payload is written.

Messages are immutable values. They are plain classes and not dataclasses for the reason in the package's docstring.
"""

from __future__ import annotations

from _struct import Struct

from dayfly.wire import jsontext
from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError
from dayfly.wire.frames import MAX_PAYLOAD

HOST = "host"
AGENT = "agent"
EITHER = "either"
OPENER = "opener"  # the side that opened the channel
ACCEPTOR = "acceptor"  # the other one

CONTROL = 0
"""The channel of messages about the connection itself."""

_U32 = Struct("!I")


class Message:
    """Root of all messages. Equal by value; ``repr`` escapes whatever the peer sent."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r:.80}' for n in self.__slots__)})"


class Hello(Message):
    """First message of the host: protocol version, a nonce to be echoed, and options for the agent."""

    __slots__ = ("nonce", "options", "protocol")

    def __init__(self, protocol: int, nonce: str, options: dict[str, object]) -> None:
        self.protocol = protocol
        self.nonce = nonce
        self.options = options


class Welcome(Message):
    """First message of the agent: its protocol version, the host's nonce, and facts about the inside (claims)."""

    __slots__ = ("facts", "nonce", "protocol")

    def __init__(self, protocol: int, nonce: str, facts: dict[str, object]) -> None:
        self.protocol = protocol
        self.nonce = nonce
        self.facts = facts


class Open(Message):
    """Opens a channel for one operation. The opener's ids: odd for the host, even for the agent, ever increasing."""

    __slots__ = ("op", "params")

    def __init__(self, op: str, params: dict[str, object]) -> None:
        self.op = op
        self.params = params


class Data(Message):
    """Bytes of one of the channel's streams (0-255). Counts against the receiver's window."""

    __slots__ = ("data", "stream")

    def __init__(self, stream: int, data: bytes) -> None:
        self.stream = stream
        self.data = data


class Eof(Message):
    """The sender will send no more bytes on this stream of the channel."""

    __slots__ = ("stream",)

    def __init__(self, stream: int) -> None:
        self.stream = stream


class Event(Message):
    """A small named fact about the operation. Counts against the receiver's window."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, object]) -> None:
        self.name = name
        self.fields = fields


class Credit(Message):
    """The receiver took ``amount`` bytes out of the channel: the sender may send as many more."""

    __slots__ = ("amount",)

    def __init__(self, amount: int) -> None:
        self.amount = amount


class Finish(Message):
    """The acceptor is done; the channel is gone."""

    __slots__ = ("value",)

    def __init__(self, value: dict[str, object]) -> None:
        self.value = value


class Fail(Message):
    """The acceptor refuses or failed; the channel is gone. ``code`` is one word, ``message`` for people."""

    __slots__ = ("code", "message")

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message


class Cancel(Message):
    """The opener has lost interest. The acceptor stops and still answers with ``Finish`` or ``Fail``."""

    __slots__ = ()


class Ack(Message):
    """Nothing but the acknowledgement in the header. Not numbered."""

    __slots__ = ()


class Quiesce(Message):
    """Send what you have, then nothing until ``Resume``."""

    __slots__ = ()


class Quiesced(Message):
    """All is sent; nothing follows until ``Resume``."""

    __slots__ = ()


class Resume(Message):
    """Goes on, perhaps on another stream. ``received`` is the highest number that the sender has. Not numbered."""

    __slots__ = ("epoch", "received")

    def __init__(self, epoch: int, received: int) -> None:
        self.epoch = epoch
        self.received = received


class Ping(Message):
    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Pong(Message):
    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Goodbye(Message):
    """The sender leaves in good order."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Row:
    """One line of the table. ``fields`` are names and types of a JSON payload, in the constructor's order."""

    __slots__ = ("cls", "codec", "control", "fields", "kind", "numbered", "sender")

    def __init__(
        self,
        kind: int,
        cls: type[Message],
        sender: str,
        fields: tuple[tuple[str, type], ...] = (),
        *,
        control: bool = False,
        numbered: bool = True,
        codec: str = "json",
    ) -> None:
        self.kind = kind
        self.cls = cls
        self.sender = sender
        self.fields = fields
        self.control = control
        self.numbered = numbered
        self.codec = codec


TABLE = (
    Row(1, Hello, HOST, (("protocol", int), ("nonce", str), ("options", dict)), control=True),
    Row(2, Welcome, AGENT, (("protocol", int), ("nonce", str), ("facts", dict)), control=True),
    Row(3, Open, EITHER, (("op", str), ("params", dict))),
    Row(4, Data, EITHER, codec="data"),
    Row(5, Eof, EITHER, (("stream", int),)),
    Row(6, Event, EITHER, (("name", str), ("fields", dict))),
    Row(7, Credit, EITHER, (("amount", int),), codec="u32"),
    Row(8, Finish, ACCEPTOR, (("value", dict),)),
    Row(9, Fail, ACCEPTOR, (("code", str), ("message", str))),
    Row(10, Cancel, OPENER),
    Row(11, Ack, EITHER, control=True, numbered=False),
    Row(12, Quiesce, HOST, control=True),
    Row(13, Quiesced, AGENT, control=True),
    Row(14, Resume, EITHER, (("epoch", int), ("received", int)), control=True, numbered=False),
    Row(15, Ping, EITHER, (("token", int),), control=True, codec="u32"),
    Row(16, Pong, EITHER, (("token", int),), control=True, codec="u32"),
    Row(17, Goodbye, EITHER, (("reason", str),), control=True),
)
BY_KIND = {row.kind: row for row in TABLE}
BY_CLASS = {row.cls: row for row in TABLE}


def encode(message: Message) -> bytes:
    """The payload of any message but ``Data``. Raises ``LocalProtocolError`` if it does not fit in a frame."""
    row = BY_CLASS[type(message)]
    if row.codec == "u32":
        return _U32.pack(getattr(message, row.fields[0][0]))
    if not row.fields:
        return b""
    payload = dump_json({name: getattr(message, name) for name, _ in row.fields})
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(f"{row.cls.__name__} of {len(payload)} bytes, {MAX_PAYLOAD} allowed")
    return payload


def decode(row: Row, payload: bytes) -> Message:
    """The message in ``payload``. Raises ``RemoteProtocolError`` and nothing else, whatever the bytes."""
    if row.codec == "data":
        if not payload:
            raise RemoteProtocolError("Data without a stream number")
        return Data(payload[0], payload[1:])
    if row.codec == "u32":
        if len(payload) != _U32.size:
            raise RemoteProtocolError(f"{row.cls.__name__} of {len(payload)} bytes")
        return row.cls(*_U32.unpack(payload))
    if not row.fields:
        if payload:
            raise RemoteProtocolError(f"{row.cls.__name__} with a payload")
        return row.cls()
    return row.cls(*_checked(row, load_json(payload)))


def _checked(row: Row, value: object) -> list[object]:
    name = row.cls.__name__
    if not isinstance(value, dict) or len(value) != len(row.fields):
        raise RemoteProtocolError(f"{name} with other fields than the table's")
    found = []
    for field, kind in row.fields:
        item = value.get(field)
        if type(item) is not kind:  # exact: a bool is not an int here
            raise RemoteProtocolError(f"{name}.{field} is missing or not of type {kind.__name__}")
        found.append(item)
    return found


def dump_json(value: object) -> bytes:
    """Compact ASCII JSON; lone surrogates (undecodable file names, PEP 383) survive as escapes."""
    return jsontext.encode(value).encode("ascii")


def load_json(payload: bytes) -> object:
    """A JSON value from hostile bytes: no NaN, no duplicate keys, bounded depth. Raises ``RemoteProtocolError``."""
    try:
        return _DECODE(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"not JSON: {type(error).__name__}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(name)


_DECODE = jsontext.decoder(_unique, _no_constant)
