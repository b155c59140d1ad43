"""Clients and servers that try to be heard as something else than was judged, or to be the only ones that are heard."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address
from typing import Any

import pytest

from dayfly.egress import served
from dayfly.egress.http import stream
from dayfly.egress.http.upstream import MOST_INFORMATIONAL
from dayfly.egress.terms import Terms
from dayfly.network import Rule
from tests.egress.canary import Canary, Visit
from tests.egress.http.desk import HOST, OUTSIDE, Desk, Passing, asked, client_context, response, server_context

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {HOST}", *lines, "", ""]).encode("latin-1")


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(path: str, pieces: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + pieces


class Says:
    """A server that says ``what`` to whatever it is asked, and writes down the heads."""

    def __init__(self, *what: bytes, closes: bool = False) -> None:
        self._what = list(what)
        self._closes = closes
        self.heads: list[bytes] = []

    async def __call__(self, visit: Visit) -> None:
        while True:
            try:
                head = await visit.reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            self.heads.append(head)
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            await visit.reader.readexactly(int(fields.get(b"content-length", b"0")))
            while fields.get(b"transfer-encoding") and (await visit.reader.readline()) not in (b"", b"0\r\n"):
                await visit.reader.readline()
            if fields.get(b"transfer-encoding"):
                await visit.reader.readline()
            visit.writer.write(self._what.pop(0) if len(self._what) > 1 else self._what[0])
            await visit.writer.drain()
            if self._closes:
                return


@pytest.fixture
async def outside(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with what the server does: every request goes to that one."""
    made: list[Canary] = []

    async def begin(behave: Callable[[Visit], Awaitable[None]]) -> Canary:
        server = await Canary(behave).listen(tls=server_context())
        monkeypatch.setattr(served, "service_of", lambda allowed, terms: Passing(server.port))
        made.append(server)
        return server

    yield begin
    for one in made:
        await one.close()


# --- what is behind a body ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [post("/1", b"abc"), chunked("/1", b"3\r\nabc\r\n0\r\n\r\n")])
async def test_a_request_may_come_together_with_the_body_before_it(outside: Any, first: bytes) -> None:
    says = Says(EMPTY)
    await outside(says)
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(first + get("/2") + post("/3", b"d") + get("/4"))
    assert [(await response(reader))[0] for _ in range(4)] == [200] * 4
    assert [head.split(b" ")[1] for head in says.heads] == [b"/1", b"/2", b"/3", b"/4"]
    writer.close()


@pytest.mark.parametrize(
    "second",
    [
        b"GET /2 HTTP/1.1\nHost: api.example.com\n\n",
        get("/2", "X: a", " folded: 1"),
        get("/2", *(f"X-{number}: {'a' * 800}" for number in range(50))),
    ],
)
async def test_behind_a_body_a_request_is_read_as_strictly_as_at_the_beginning(outside: Any, second: bytes) -> None:
    says = Says(EMPTY)
    await outside(says)
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(post("/1", b"abc") + second)
    assert (await response(reader))[0] == 200
    writer.write(get("/3"))
    status, headers, _ = await response(reader)
    assert (status, dict(headers)["x-dayfly-denied"]) == (400, "bad_request")
    assert [head.split(b" ")[1] for head in says.heads] == [b"/1"]
    writer.close()


# --- what is told -------------------------------------------------------------------------------------------------------


async def test_what_is_told_of_a_request_has_room_in_a_packet(outside: Any) -> None:
    """The manager would take the gateway for a liar, and end it for everybody."""
    await outside(Says(EMPTY))
    desk = Desk()
    long = get("/" + "a" * 8000).replace(b"GET", b"M" * 8000)
    assert [status for status, _, _ in await asked(desk, long)] == [200]
    [told] = desk.said.of("request")
    assert (told["method"], told["path"]) == ("M" * 20, "/" + "a" * 499)


# --- who else gets a turn -----------------------------------------------------------------------------------------------

MANY = 300


async def all_of(many: Iterable[Awaitable[object]]) -> None:
    for one in many:
        await one


async def turns_during(asking: Awaitable[object]) -> int:
    """How often somebody else was heard meanwhile."""
    turns = 0

    async def somebody_else() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(somebody_else())
    try:
        await asking
    finally:
        other.cancel()
    return turns


@pytest.mark.parametrize(
    ("requests", "answer"),
    [
        (chunked("/1", b"1\r\na\r\n" * MANY + b"0\r\n\r\n"), EMPTY),
        (get("/1"), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * MANY + b"0\r\n\r\n"),
        (get("/1").replace(HOST.encode(), b"other.example.com") * MANY, EMPTY),
    ],
    ids=["body", "answer", "requests"],
)
async def test_the_smallest_pieces_leave_others_their_turn(
    outside: Any, monkeypatch: pytest.MonkeyPatch, requests: bytes, answer: bytes
) -> None:
    """With a turn of no time there is one for each piece."""
    monkeypatch.setattr(stream, "TURN_SECONDS", 0.0)
    await outside(Says(answer))
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(requests)
    answers = MANY if requests.count(b"GET") > 1 else 1
    assert await turns_during(all_of(response(reader) for _ in range(answers))) >= MANY
    writer.close()


async def test_answers_before_the_answer_have_an_end(outside: Any) -> None:
    await outside(Says(b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MOST_INFORMATIONAL + 1) + EMPTY))
    [(status, _, _)] = await asked(Desk(), get("/1"))
    assert status == 502


async def test_a_few_answers_before_the_answer_are_nothing(outside: Any) -> None:
    await outside(Says(b"HTTP/1.1 103 Early Hints\r\n\r\n" * MOST_INFORMATIONAL + EMPTY))
    [(status, _, _)] = await asked(Desk(), get("/1"))
    assert status == 200


# --- servers ------------------------------------------------------------------------------------------------------------


async def test_what_nobody_has_asked_for_is_not_the_next_answer(outside: Any) -> None:
    server = await outside(Says(EMPTY + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", EMPTY))
    found = await asked(Desk(), get("/1"), get("/2"))
    assert [body for _, _, body in found] == [b"", b""]
    assert len(server.visits) == 2


async def test_of_chunks_and_a_length_the_chunks_are_right(outside: Any) -> None:
    both = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"
    await outside(Says(both))
    [(status, headers, body)] = await asked(Desk(), get("/1"))
    assert (status, body) == (200, b"abcd")
    assert "content-length" not in dict(headers)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000,
        b"HTTP/1.1 200 " + b"a" * 100_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx\x00: y\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\x00" * 100,
    ],
)
async def test_what_is_no_answer_is_told_as_such(outside: Any, answer: bytes) -> None:
    await outside(Says(answer, closes=True))
    desk = Desk()
    [(status, headers, _)] = await asked(desk, get("/1"))
    assert (status, dict(headers)["x-dayfly-unreachable"]) == (502, "1")
    assert (await desk.over())["why"] == "done"


async def test_a_head_is_bounded_however_it_arrives(outside: Any) -> None:
    """Also where all of it, and its end, are there at once."""
    await outside(Says(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 40_000 + b"Content-Length: 0\r\n\r\n", closes=True))
    [(status, _, _)] = await asked(Desk(), get("/1"))
    assert status == 502


# --- rules that change --------------------------------------------------------------------------------------------------


async def test_a_connection_that_is_being_made_is_looked_at_if_the_rules_say_so_meanwhile(canary: Canary) -> None:
    """It would pass otherwise, whatever is asked on it."""
    desk = Desk(canary.port, methods=None)
    begun, looked_up = asyncio.Event(), asyncio.Event()
    at_once = desk.resolver.addresses

    async def slow(host: str, turns: object) -> list[IPv4Address]:
        begun.set()
        await looked_up.wait()
        return await at_once(host, turns)

    desk.resolver.addresses = slow  # type: ignore[method-assign]
    await begun.wait()
    rule = Rule(host=HOST, ports=[canary.port], private="127.0.0.0/8", paths=["/only"])
    desk.guest.admit(Terms(rules=(rule,), authority=desk.authority))
    desk.passage.judge_again()
    looked_up.set()
    reader, writer = await desk.tls()  # with a certificate of the sandbox's own authority
    writer.write(get("/other").replace(HOST.encode(), f"{HOST}:{canary.port}".encode()))
    status, headers, _ = await response(reader)
    assert (status, dict(headers)["x-dayfly-denied"]) == (403, "request_not_listed")
    assert (desk.said.of("connected")[0]["address"], [bytes(one.said) for one in canary.visits]) == ("", [b""])
    writer.close()


# --- descriptors --------------------------------------------------------------------------------------------------------


async def test_the_loop_forgets_a_descriptor_with_the_handshake_that_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the moment in which it succeeds: asyncio would say goodbye to the client for half a minute, and nobody would ever hear whoever
    has the same number next, which may be another sandbox."""
    end, theirs = socket.socketpair()
    number = theirs.fileno()
    end.setblocking(False)
    theirs.setblocking(False)
    made = asyncio.StreamReaderProtocol.connection_made

    def given_up(protocol: asyncio.StreamReaderProtocol, transport: Any) -> None:
        made(protocol, transport)
        accepting.cancel()

    with monkeypatch.context() as during:
        client = asyncio.ensure_future(asyncio.to_thread(silent_client, end))
        during.setattr(asyncio.StreamReaderProtocol, "connection_made", given_up)
        accepting = asyncio.ensure_future(stream.accepted(theirs, server_context(), 10))
        with pytest.raises(asyncio.CancelledError):
            await accepting
    assert asyncio.get_running_loop().remove_reader(number) is False, "the loop knows nothing of it any more"
    theirs.close()
    await client


def silent_client(end: socket.socket) -> None:
    end.settimeout(10)
    try:
        with client_context(OUTSIDE).wrap_socket(end, server_hostname=HOST) as tls:
            tls.read()
    except OSError:
        pass


@pytest.mark.parametrize(
    "head", ["HEAD / HTTP/1.1\r\nHost: other.example\r\n\r\n", "HEAD // HTTP/1.1\r\nHost: api.example.com\r\n\r\n"]
)
async def test_a_head_that_is_refused_is_answered_without_a_body_and_the_next_request_with_its_own(
    outside: Any, head: str
) -> None:
    """Found by the fuzzer: the refusal had one, which no client expects there, and the connection broke off in its middle."""
    await outside(Says(EMPTY))
    refused, served_ = await asked(Desk(), head.encode(), get("/"))
    assert refused[0] in (400, 403)
    assert dict(refused[1])["x-dayfly-denied"]
    assert served_[0] == 200
