"""Every message there is, in one table: kind, who may send it, on which channel, and how its payload is written.

Messages are immutable values. They are plain classes and not dataclasses for the reason in the package's docstring.
"""

from __future__ import annotations

from _struct import Struct

from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError
from dayfly.wire.flow import MAX_EVENT
from dayfly.wire.frames import MAX_PAYLOAD
from dayfly.wire.payloads import dump_json as dump_json
from dayfly.wire.payloads import load_json as load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HOST = "host"
AGENT = "agent"
EITHER = "either"
OPENER = "opener"  # the side that opened the channel
ACCEPTOR = "acceptor"  # the other one

SEND = "send"  # said by the application through Connection.send
MACHINE = "machine"  # said by the machine itself

CONTROL = 0
"""The channel of messages about the connection itself."""

MAX_STREAM = 255
MAX_U32 = (1 << 32) - 1

FRAME_ITEMS = 1 << 16
"""JSON values in one frame. A page of a directory listing has ten thousand; a decoded frame then stays below 8 MiB."""

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
    """Are you there? The other machine answers by itself, without its application."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Pong(Message):
    """Answers the oldest ``Ping`` that is not answered, with its token."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Goodbye(Message):
    """The sender leaves in good order."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Row:
    """One line of the table.

    ``sender`` is a role, or a side of the channel. ``fields`` are names and types, in the constructor's order. ``codec``
    says how they are written: "json"; "stream": the stream number in the header; "data": that, and the payload is the
    bytes; "u32". ``limit`` is the longest payload. ``said_by`` is who decides to send it: the application through
    ``send``, a method of its own, or the machine by itself. Frames that are not ``numbered`` are not sent again after a
    cut.
    """

    __slots__ = ("cls", "codec", "control", "fields", "kind", "limit", "numbered", "said_by", "sender")

    def __init__(
        self,
        kind: int,
        cls: type[Message],
        sender: str,
        fields: tuple[tuple[str, type], ...] = (),
        *,
        limit: int = 0,
        control: bool = False,
        numbered: bool = True,
        codec: str = "json",
        said_by: str = SEND,
    ) -> None:
        self.kind = kind
        self.cls = cls
        self.sender = sender
        self.fields = fields
        self.limit = limit
        self.control = control
        self.numbered = numbered
        self.codec = codec
        self.said_by = said_by


_SMALL = 64 * 1024  # facts and texts for people; what carries code, listings or tracebacks may fill a frame

TABLE = (
    Row(1, Hello, HOST, (("protocol", int), ("nonce", str), ("options", dict)), limit=MAX_PAYLOAD, control=True),
    Row(2, Welcome, AGENT, (("protocol", int), ("nonce", str), ("facts", dict)), limit=_SMALL, control=True),
    Row(3, Open, EITHER, (("op", str), ("params", dict)), limit=MAX_PAYLOAD, said_by="open"),
    Row(4, Data, EITHER, (("stream", int), ("data", bytes)), limit=MAX_PAYLOAD, codec="data", said_by="send_data"),
    Row(5, Eof, EITHER, (("stream", int),), codec="stream"),
    Row(6, Event, EITHER, (("name", str), ("fields", dict)), limit=MAX_EVENT),
    Row(7, Credit, EITHER, (("amount", int),), limit=4, codec="u32", said_by=MACHINE),
    Row(8, Finish, ACCEPTOR, (("value", dict),), limit=MAX_PAYLOAD),
    Row(9, Fail, ACCEPTOR, (("code", str), ("message", str)), limit=_SMALL),
    Row(10, Cancel, OPENER),
    Row(11, Ack, EITHER, control=True, numbered=False, said_by=MACHINE),
    Row(12, Quiesce, HOST, control=True, numbered=False),
    Row(13, Quiesced, AGENT, control=True, numbered=False),
    Row(14, Resume, EITHER, (("epoch", int), ("received", int)), limit=128, control=True, numbered=False,
        said_by="resume"),
    Row(15, Ping, EITHER, (("token", int),), limit=4, control=True, codec="u32"),
    Row(16, Pong, EITHER, (("token", int),), limit=4, control=True, codec="u32", said_by=MACHINE),
    Row(17, Goodbye, EITHER, (("reason", str),), limit=1024, control=True),
)  # fmt: skip
BY_KIND = {row.kind: row for row in TABLE}
BY_CLASS = {row.cls: row for row in TABLE}
LIMITS = {row.kind: row.limit for row in TABLE}


def encode(message: Message) -> bytes:
    """The payload of a message. Raises ``LocalProtocolError`` for whatever the peer would refuse."""
    row = BY_CLASS[type(message)]
    for name, kind in row.fields:
        value = getattr(message, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise LocalProtocolError(f"{row.cls.__name__}.{name} is not of type {kind.__name__}")
    payload = _WRITERS[row.codec](row, message)
    if len(payload) > row.limit:
        raise LocalProtocolError(f"{row.cls.__name__} of {len(payload)} bytes, {row.limit} allowed")
    return payload


def _write_json(row: Row, message: Any) -> bytes:
    if not row.fields:
        return b""
    try:
        return dump_json({name: getattr(message, name) for name, _ in row.fields}, FRAME_ITEMS)
    except (ValueError, TypeError, RecursionError) as error:
        raise LocalProtocolError(f"{row.cls.__name__} cannot be written: {error}") from error


def _write_u32(row: Row, message: Any) -> bytes:
    number = getattr(message, row.fields[0][0])
    if not 0 <= number <= MAX_U32:
        raise LocalProtocolError(f"{row.cls.__name__} of {number} is out of range")
    return _U32.pack(number)


def _write_stream(row: Row, message: Any) -> bytes:
    if not 0 <= message.stream <= MAX_STREAM:
        raise LocalProtocolError(f"{row.cls.__name__} on stream {message.stream}")
    return b""


def _write_data(row: Row, message: Any) -> bytes:
    _write_stream(row, message)
    if not message.data:
        raise LocalProtocolError("Data without bytes")
    return bytes(message.data)


_WRITERS = {"json": _write_json, "u32": _write_u32, "stream": _write_stream, "data": _write_data}


def decode(row: Row, payload: bytes, stream: int = 0) -> Message:
    """The message in a frame. Raises ``RemoteProtocolError`` and nothing else, whatever the bytes."""
    cls: Callable[..., Message] = row.cls
    if row.codec == "data":
        if not payload:
            raise RemoteProtocolError(f"Data without bytes on stream {stream}")
        return Data(stream, payload)
    if row.codec == "stream":
        return cls(stream)
    if stream:
        raise RemoteProtocolError(f"{row.cls.__name__} with a stream number")
    if row.codec == "u32":
        if len(payload) != _U32.size:
            raise RemoteProtocolError(f"{row.cls.__name__} of {len(payload)} bytes")
        return cls(*_U32.unpack(payload))
    return cls(*_read(row, payload)) if row.fields else cls()


def _read(row: Row, payload: bytes) -> list[object]:
    value = load_json(payload, FRAME_ITEMS)
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
