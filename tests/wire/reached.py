"""A connection in every state that it can be found in, and one message of every kind."""

from __future__ import annotations

from typing import Any

from dayfly.wire import flow
from dayfly.wire.connection import AGENT, HOST, PROTOCOL, Connection
from dayfly.wire.messages import (
    ACCEPTOR,
    Ack,
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Hello,
    Message,
    Open,
    Ping,
    Pong,
    Quiesce,
    Quiesced,
    Resume,
    Row,
    Welcome,
)
from dayfly.wire.states import CLOSED, DETACHED, GREETING, LIVE, QUIESCED, QUIESCING, RESUMING, START, STATES

from .peers import Pair

ROLES = (HOST, AGENT)
BY_HOST, BY_AGENT = 1, 2  # a channel that the host opened, and one that the agent opened
SAMPLES: dict[type[Message], Message] = {
    Hello: Hello(PROTOCOL, "nonce", {}),
    Welcome: Welcome(PROTOCOL, "nonce", {}),
    Open: Open("usage", {}),
    Data: Data(0, b"x"),
    Eof: Eof(0),
    Event: Event("started", {}),
    Credit: Credit(flow.MIN_CREDIT),
    Finish: Finish({}),
    Fail: Fail("busy", ""),
    Cancel: Cancel(),
    Ack: Ack(),
    Quiesce: Quiesce(),
    Quiesced: Quiesced(),
    Resume: Resume(1, 0),
    Ping: Ping(7),
    Pong: Pong(9),
    Goodbye: Goodbye("done"),
}
UNREACHABLE = {(AGENT, RESUMING)}  # the agent passes through it within one call: it answers a Resume by itself


def at(role: str, state: str) -> Connection:
    """A connection that got there by an honest exchange, with channels 1 and 2 open where there can be any, one Ping sent
    by each side that is not answered yet, and one frame sent that is not acknowledged."""
    pair = Pair()
    for step in _PATHS[state]:
        step(pair)
    side = pair.host if role == HOST else pair.agent
    assert side.state == state
    return side


def _hello(pair: Pair) -> None:
    pair.host.send(SAMPLES[Hello])
    pair.host.open("usage", {})
    pair.host.send(Ping(9))
    pair.pass_on(pair.host)


def _welcome(pair: Pair) -> None:
    pair.agent.send(SAMPLES[Welcome])
    pair.agent._control.pongs.clear()  # an agent that is slow to answer
    pair.agent.open("usage", {})
    pair.agent.send(Ping(9))
    pair.pass_on(pair.agent)
    pair.host._control.pongs.clear()
    for side, channel in ((pair.host, BY_HOST), (pair.agent, BY_AGENT)):
        side.send(Eof(9), channel)  # on its way
        pair.write(side)


def _quiesce(pair: Pair) -> None:
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)


def _quiesced(pair: Pair) -> None:
    pair.agent.send(Quiesced())
    pair.pass_on(pair.agent)


def _resuming(pair: Pair) -> None:
    pair.host.resume()
    pair.write(pair.host)


def _close(pair: Pair) -> None:
    pair.host.close()
    pair.agent.close()


_LIVE = (_hello, _welcome)
_PATHS: dict[str, Any] = {
    START: (),
    GREETING: (_hello,),
    LIVE: _LIVE,
    QUIESCING: (*_LIVE, _quiesce),
    QUIESCED: (*_LIVE, _quiesce, _quiesced),
    DETACHED: (*_LIVE, Pair.cut),
    RESUMING: (*_LIVE, Pair.cut, _resuming),
    CLOSED: (*_LIVE, _close),
}


def channel_for(row: Row, sender: str) -> int:
    """The channel on which ``sender`` may say this."""
    if row.control:
        return 0
    if row.cls is Open:
        return BY_HOST + 2 if sender == HOST else BY_AGENT + 2
    return BY_AGENT if (row.sender == ACCEPTOR) == (sender == HOST) else BY_HOST


REACHABLE = [(role, state) for role in ROLES for state in STATES if (role, state) not in UNREACHABLE]
