"""A connection that is written down while it is silent, and gone on with: once, or by several copies of the peer."""

from __future__ import annotations

import copy
import json

import pytest

from dayfly.wire.bookmark import Bookmark
from dayfly.wire.connection import LIVE, Connection
from dayfly.wire.errors import LocalProtocolError
from dayfly.wire.messages import Data, Finish, Open, Ping, Pong, Quiesce, Quiesced

from .peers import Pair, live


def silent() -> Pair:
    """After a channel that has come and gone."""
    pair = live()
    channel = pair.host.open("execute", {})
    pair.host.send_data(channel, 0, b"in")
    pair.settle()
    pair.agent.send_data(channel, 1, b"out")
    pair.agent.send(Finish({}), channel)
    pair.settle()
    quiesce(pair)
    return pair


def quiesce(pair: Pair) -> None:
    pair.host.send(Quiesce())
    pair.pass_on(pair.host)
    pair.agent.send(Quiesced())
    pair.pass_on(pair.agent)


def continued(pair: Pair, bookmark: Bookmark) -> Pair:
    """A copy of the agent on a stream of its own, and a new host."""
    other = Pair()
    other.agent = copy.deepcopy(pair.agent)
    other.host = Connection.continued(bookmark)
    other.host.resume()
    other.settle()
    return other


def test_each_of_several_copies_goes_on_where_the_one_was() -> None:
    pair = silent()
    bookmark = Bookmark.of(json.loads(json.dumps(pair.host.bookmark().numbers())))
    for _ in range(3):
        other = continued(pair, bookmark)
        assert other.host.state == other.agent.state == LIVE
        channel = other.host.open("usage", {})
        other.host.send(Ping(7))
        heard = [received.message for received in other.settle()]
        assert Open("usage", {}) in heard
        assert Pong(7) in heard
        other.agent.send_data(channel, 1, b"after")
        other.agent.send(Finish({}), channel)
        heard = [received.message for received in other.settle()]
        assert heard == [Data(1, b"after"), Finish({})]
        quiesce(other)
        assert other.host.bookmark().epoch == bookmark.epoch + 1


def test_a_copy_goes_on_with_the_numbers_of_the_channels_that_the_agent_has_opened() -> None:
    pair = live()
    for number in (2, 4):
        assert pair.agent.open("tunnel", {"host": "a.example", "port": 443}) == number
        pair.settle()
        pair.host.send(Finish({}), number)
        pair.settle()
    quiesce(pair)
    bookmark = Bookmark.of(json.loads(json.dumps(pair.host.bookmark().numbers())))
    for _ in range(2):
        other = continued(pair, bookmark)
        assert other.agent.open("tunnel", {"host": "a.example", "port": 443}) == 6
        assert Open("tunnel", {"host": "a.example", "port": 443}) in [one.message for one in other.settle()]


def test_the_one_goes_on_too() -> None:
    pair = silent()
    pair.host.bookmark()
    pair.host.resume()
    pair.settle()
    assert pair.host.state == pair.agent.state == LIVE
    assert pair.host.open("usage", {}) == 3


def test_a_ping_that_comes_with_the_quiesce_is_answered_before_the_silence() -> None:
    pair = live()
    pair.host.send(Ping(1))
    quiesce(pair)
    pair.host.bookmark()


def test_there_is_no_bookmark_of_what_is_under_way() -> None:
    pair = live()
    with pytest.raises(LocalProtocolError):
        pair.host.bookmark()
    pair.host.open("execute", {})
    quiesce(pair)
    with pytest.raises(LocalProtocolError):
        pair.host.bookmark()
    with pytest.raises(LocalProtocolError):
        pair.agent.bookmark()


GOOD = {"epoch": 1, "sent": 2, "received": 3, "channel": 5, "heard": 6}


@pytest.mark.parametrize(
    "numbers",
    [None, [], {}, {**GOOD, "more": 1}, {**GOOD, "sent": -1}, {**GOOD, "epoch": True}, {**GOOD, "channel": 4},
     {**GOOD, "received": 1 << 63}, {**GOOD, "sent": 1.0}, {**GOOD, "heard": 5}, {**GOOD, "heard": -2}],
)  # fmt: skip
def test_what_is_no_bookmark_is_refused(numbers: object) -> None:
    with pytest.raises(LocalProtocolError):
        Bookmark.of(numbers)
    assert Bookmark.of(GOOD).numbers() == GOOD, "the control"


def test_one_that_was_written_down_before_peers_opened_channels_has_heard_of_none() -> None:
    older = {name: number for name, number in GOOD.items() if name != "heard"}
    assert Bookmark.of(older).numbers() == {**older, "heard": 0}
