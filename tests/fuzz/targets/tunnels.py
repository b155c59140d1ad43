"""Connections that a hostile agent opens, and names that it says were refused: the manager's side of them, over a gateway in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dayfly.egress.client import EgressDenied, EgressUnreachable
from dayfly.egress.verdict import Denied
from dayfly.limits import Limits
from dayfly.network import Rule
from dayfly.policy import Policy
from dayfly.sandbox import Life, accepted, carrying, claims, denials, exchange, link, network
from dayfly.sandbox.denials import KEPT
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedAgent, ScriptedBoundary, scripted_spec
from dayfly.wire.messages import BY_CLASS, BY_KIND, Cancel, Data, Eof, Finish, Message, Open
from tests.fuzz.target import JSON_WORDS, MIB, Target, held, may_be_shown

HOST = "files.example.com"
RULES = (Rule(host=HOST), Rule(host="*.example.org"))
DENIED = Denied("other.example.com", 443, "not_listed", "other.example.com is not on the list", "add a rule")
RECORD = 5  # channel, kind, stream, length in two bytes


class Tunnel:
    """The gateway's end of a connection: it says a word and then no more."""

    def __init__(self) -> None:
        self.denied: Denied | None = None
        self.sent = 0
        self.heard = 0
        self.closed = False
        self._says = [b"hello"]

    async def read(self, _: int) -> bytes:
        return self._says.pop() if self._says else b""

    async def write(self, data: bytes) -> None:
        assert not self.closed
        self.heard += len(data)

    def write_eof(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Way:
    """A gateway that allows one host, and is asked with text and numbers only."""

    def __init__(self) -> None:
        self.tunnels: list[Tunnel] = []
        self.withdrawn = 0
        self._rules: Sequence[object] = ()  # of somebody who learns there are none

    async def admit(self, _: str, rules: Sequence[object], told: object) -> str | None:
        self._rules = rules
        return None

    async def withdraw(self, _: str) -> None:
        self.withdrawn += 1

    async def connect(self, _: str, host: str, port: int, early: bytes) -> Tunnel:
        assert isinstance(host, str)
        assert 0 <= port < 65536
        if host != HOST or not self._rules:
            raise EgressDenied(DENIED) if len(host) % 2 else EgressUnreachable("nobody is there")
        made = Tunnel()
        made.sent = made.heard = len(early)
        self.tunnels.append(made)
        return made


def tunnels(data: bytes) -> None:
    """Only what was allowed is connected; no more goes on than was said; every connection is closed with its sandbox, which ends typed."""
    held(_lived(bool(data[:1] and data[0] % 2), _records(data[1:])))


async def _lived(learning: bool, records: list[tuple[int, int, int, bytes]]) -> None:
    async def agreeing(asked: Asked) -> None:
        await asked.finish()

    way, boundary = Way(), ScriptedBoundary(agreeing)
    policy = Policy(limits=Limits(lifetime_seconds=600))
    life = await Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
    told: list[Any] = []
    try:
        await life.set_network("learn" if learning else RULES, way)  # type: ignore[arg-type]
        life._inside.denials.tell = told.append
        for channel, kind, stream, payload in records:
            await _say(boundary.cell.agent, channel, kind, stream, payload)
    except OSError:
        pass  # it has ended already
    finally:
        await life.close()
    _is_over(life, way, told, sum(len(payload) for *_, payload in records))
    assert not (learning and way.tunnels)


async def _say(agent: ScriptedAgent, channel: int, kind: int, stream: int, payload: bytes) -> None:
    row = BY_KIND.get(kind % 18, BY_CLASS[Data])
    number = 0 if row.control else 2 * (channel % 8 + 1)
    agent.connection._ledger.emit(row, number, stream if row.cls in (Data, Eof) else 0, payload[: row.limit])
    await agent.flush()


def _is_over(life: Life, way: Way, told: list[Any], said: int) -> None:
    assert life.end_reason in (EndReason.STOPPED, EndReason.PROTOCOL_VIOLATION, EndReason.UNRESPONSIVE), life.end_reason
    assert all(one.closed for one in way.tunnels)
    assert sum(one.heard for one in way.tunnels) <= said
    assert way.withdrawn == 1
    assert len(life._inside.denials.since(0)) <= KEPT
    for one in told:
        for text in (one.host, one.reason, one.remedy):
            may_be_shown(text)


def _records(data: bytes) -> list[tuple[int, int, int, bytes]]:
    found, position = [], 0
    while position + RECORD <= len(data):
        channel, kind, stream, *size = data[position : position + RECORD]
        position += RECORD
        found.append((channel, kind, stream % 4, data[position : position + int.from_bytes(size, "big")]))
        position += int.from_bytes(size, "big")
    return found


def _record(channel: int, kind: type[Message], value: object = b"") -> bytes:
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    return bytes([channel, BY_CLASS[kind].kind, 0]) + len(payload).to_bytes(2, "big") + payload


def _open(channel: int, op: str, **params: object) -> bytes:
    return _record(channel, Open, {"op": op, "params": params})


_GOOD = _open(0, "tunnel", host=HOST, port=443) + _record(0, Data, b"GET /")
_SEEDS = (
    b"\0" + _GOOD + _record(0, Eof),
    b"\0"
    + _GOOD
    + _record(0, Cancel)
    + _open(1, "tunnel", host="other.example.com", port=443)
    + _open(2, "tunnel", host="odd", port=0),
    b"\1" + _GOOD + _record(0, Eof),
    b"\0" + _open(0, "names.refused", names=[{"host": "a\x1b.example", "count": 3}, {"host": "b.example", "count": 1}]),
    b"\0" + _open(0, "tunnel", host="\ud800" * 9, port=1 << 40) + _open(1, "usage") + _record(0, Finish, {"value": {}}),
)

TARGETS = (
    Target(
        "tunnels",
        tunnels,
        (accepted, carrying, claims, denials, exchange, link, network),
        _SEEDS,
        memory=16 * MIB,
        longest=4096,
        examples=150,
        words=(*JSON_WORDS, HOST.encode(), b'"names"', b'"host"', b'"count"', b"xn--", b"127.0.0.1", _GOOD),
    ),
)
