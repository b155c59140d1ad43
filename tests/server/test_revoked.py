"""A key that is revoked, or expires, ends what was begun with it, too: an open stream is as good as a key."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from dayfly.errors import HostError
from dayfly.server.asgi import Message
from dayfly.server.revoked import Revocable, Revocations
from tests.server.house import TINY, House, sandbox_of
from tests.server.test_processes import port

ECHO = """
import socket, threading
def answer(c):
    while d := c.recv(99): c.sendall(d.upper())
def serve():
    while True: threading.Thread(target=answer, args=(s.accept()[0],), daemon=True).start()
s = socket.create_server(('127.0.0.1', 4242))
threading.Thread(target=serve, daemon=True).start()
"""
ENDLESS = ["sh", "-c", "while echo on; do sleep 0.05; done"]

End = Callable[[House, str], None]


def revoke(server: House, secret: str) -> None:
    server.keys.revoke(secret.split("_")[1])


def outlive(server: House, _secret: str) -> None:
    server.wall[0] += 100


@pytest.fixture(autouse=True)
def same_clock(server: House) -> Iterator[None]:
    """The server is everybody's here."""
    before = server.wall[0]
    yield
    server.wall[0] = before


ENDS = pytest.mark.parametrize("end", [revoke, outlive])


def secret_of(server: House) -> str:
    """A key that is valid for a minute of the wall clock."""
    return server.key(expires_in=60)


@ENDS
def test_what_is_under_way_is_ended_as_if_its_caller_had_gone(server: House, end: End) -> None:
    other = server.client()
    with sandbox_of(other, TINY) as path:
        secret = secret_of(server)
        mine = server.with_secret(secret)
        with mine.stream("POST", f"{path}/processes", json={"argv": ENDLESS}) as events:
            lines = events.iter_lines()
            assert [json.loads(next(lines))["type"] for _ in range(2)] == ["started", "stdout"]
            end(server, secret)
            with pytest.raises(httpx.RemoteProtocolError):  # it breaks off, and says of no end
                deque(lines, maxlen=0)
        assert mine.get(path).status_code == 401
        while other.get(f"{path}/processes").json()["processes"]:  # and what ran for it is ended
            pass


@ENDS
def test_a_port_is_closed_and_others_stay_open(server: House, end: End) -> None:
    other = server.client()
    with sandbox_of(other, TINY) as path:
        assert other.post(f"{path}/executions", json={"code": ECHO}).json()["outcome"] == "ok"
        secret = secret_of(server)
        with port(server, path, 4242) as theirs, port(server, path, 4242, secret) as mine:
            for connection in (theirs, mine):
                connection.send(b"a")
                assert connection.recv() == b"A"
            end(server, secret)
            with pytest.raises(ConnectionClosed):
                mine.recv()
            theirs.send(b"b")
            assert theirs.recv() == b"B", "the control"


@ENDS
def test_what_is_watched_is_told_no_more(server: House, end: End) -> None:
    other = server.client()
    with sandbox_of(other, TINY) as path:
        secret = secret_of(server)
        with server.with_secret(secret).stream("GET", f"{path}/files/watch", params={"path": "/tmp"}) as events:
            lines = events.iter_lines()
            assert json.loads(next(lines))["kind"] == "ready"
            end(server, secret)
            with pytest.raises(httpx.RemoteProtocolError):
                deque(lines, maxlen=0)


# --- the parts, with a clock that is not waited for --------------------------------------------------------------------------


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def looked(holds: Callable[[str], bool]) -> list[Message | None]:
    """What two requests of the keys ``a`` and ``b`` are told after one look, where anything."""
    revocations = Revocations(holds)
    with ExitStack() as stack:
        told = []
        for kind, key in (("http", "a"), ("websocket", "b")):
            receive = stack.enter_context(revocations.watched({"type": kind}, never, key))
            told.append(asyncio.ensure_future(receive()))
        await asyncio.sleep(0)
        revocations._look()
        for _ in range(3):
            await asyncio.sleep(0)
        found = [one.result() if one.done() else None for one in told]
        for one in told:
            one.cancel()
        await asyncio.gather(*told, return_exceptions=True)
        assert [one.cancelled() for one in told] == [message is None for message in found], "who cancels is heard"
    revocations._look()
    assert revocations._timer is None, "where nothing is under way nobody looks"
    return found


async def test_each_is_told_in_its_own_words_and_no_other() -> None:
    first, second = await looked(lambda key: False)
    assert first is not None
    assert second is not None
    assert (first["type"], second["type"]) == ("http.disconnect", "websocket.disconnect")
    assert [one is None for one in await looked(lambda key: key == "b")] == [False, True]
    assert await looked(lambda key: True) == [None, None]


async def test_keys_that_cannot_be_read_for_now_end_nothing() -> None:
    def fail(_key: str) -> bool:
        raise HostError("locked")

    assert await looked(fail) == [None, None]


async def test_who_is_cancelled_at_the_same_time_is_cancelled() -> None:
    revocable = Revocable(never, "a", "http.disconnect")
    task = asyncio.ensure_future(revocable())
    await asyncio.sleep(0)
    revocable.end()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert (await revocable())["type"] == "http.disconnect", "and later it is still over"
