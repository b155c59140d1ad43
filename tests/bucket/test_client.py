"""What is asked of a store, and what becomes of its answers: over connections in memory."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.bucket.client import BucketClient
from dayfly.errors import StoreFailed
from dayfly.network.objects import BucketPrefix

PLACE = BucketPrefix(bucket="lake", prefix="in/", endpoint="https://s3.example.com", credentials="key")
OK = b"HTTP/1.1 200 OK\r\n"


class Wire:
    """Says what it was given, in pieces; whoever writes to it after ``takes`` bytes finds it closed."""

    def __init__(self, *says: bytes, takes: int = 1 << 30) -> None:
        self.says = list(says)
        self.takes = takes
        self.heard = b""
        self.closed = False

    async def read(self, limit: int) -> bytes:
        return self.says.pop(0) if self.says else b""

    async def write(self, data: bytes) -> None:
        if len(self.heard) + len(data) > self.takes:
            raise BrokenPipeError("nobody listens")
        self.heard += data

    def close(self) -> None:
        self.closed = True


class Wires:
    """One after another, for a client that dials."""

    def __init__(self, *wires: Wire) -> None:
        self.wires = list(wires)
        self.used: list[Wire] = []

    async def dial(self) -> Wire:
        self.used.append(self.wires.pop(0))
        return self.used[-1]


def client(*wires: Wire) -> tuple[BucketClient, Wires]:
    made = Wires(*wires)
    return BucketClient(PLACE, made.dial), made


async def read(store: BucketClient, key: str, size: int) -> bytes:
    async with store.object(key, size) as content:
        return b"".join([piece async for piece in content])


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


async def test_one_connection_serves_one_request_after_another() -> None:
    answers = [OK + b"content-length: 3\r\n\r\nabc", OK + b"transfer-encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n"]
    store, wires = client(Wire(*answers))
    async with store:
        assert await read(store, "in/a b+é", 3) == b"abc"
        assert await read(store, "in/c", 3) == b"xyz"
    (wire,) = wires.used
    lines = [line for line in wire.heard.decode().split("\r\n") if line.startswith("GET")]
    assert lines == ["GET /lake/in/a%20b%2B%C3%A9 HTTP/1.1", "GET /lake/in/c HTTP/1.1"]
    assert b"Host: objects.dayfly.internal" in wire.heard or b"host: objects.dayfly.internal" in wire.heard
    assert b"authorization" not in wire.heard.lower()
    assert wire.closed


async def test_a_connection_that_is_used_up_is_replaced() -> None:
    closing = Wire(OK + b"connection: close\r\ncontent-length: 1\r\n\r\na")
    store, wires = client(closing, Wire(OK + b"content-length: 1\r\n\r\nb"))
    async with store:
        assert await read(store, "in/a", 1) + await read(store, "in/b", 1) == b"ab"
    assert [wire.closed for wire in wires.used] == [True, True]


async def test_an_object_that_is_left_in_the_middle_takes_its_connection_along() -> None:
    store, wires = client(Wire(OK + b"content-length: 6\r\n\r\nabc", b"def"), Wire(OK + b"content-length: 1\r\n\r\nb"))
    async with store:
        async with store.object("in/a", 6) as content:
            assert await anext(aiter(content)) == b"abc"
        assert wires.used[0].closed
        assert await read(store, "in/b", 1) == b"b"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "ended before an answer|broke off"),
        (b"SSH-2.0-OpenSSH\r\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc", "broke off"),
        (OK + b"content-length: 4\r\n\r\nabcd", "it has 4 bytes and was listed with 3"),
        (OK + b"content-length: 3\r\n\r\nab", "broke off"),
        (OK + b"transfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n", "more than the 3 bytes"),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "less than the 3 bytes"),
        (OK + b"x: " + b"y" * 50_000, "broke off"),
        (b"HTTP/1.1 204 Nothing\r\n\r\n", "204"),
        (b"HTTP/1.1 301 Over there\r\nlocation: /\r\ncontent-length: 0\r\n\r\n", "301"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 100000\r\n\r\n" + b" " * 100_000, "more than 65536 bytes"),
    ],
)
async def test_what_is_no_object_is_a_failure_with_the_place(says: bytes, why: str) -> None:
    store, wires = client(Wire(says))
    with pytest.raises(StoreFailed, match=why) as caught:
        async with store:
            await read(store, "in/a", 3)
    assert "s3://lake/in/a" in caught.value.message
    assert caught.value.retryable
    assert wires.used[0].closed


async def test_a_reason_is_told_in_ascii() -> None:
    body = "<Error><Code>AccessDenied</Code><Message>No\x7f \u202ereally</Message></Error>".encode()
    head = b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n" % len(body)
    store, _ = client(Wire(head + body))
    with pytest.raises(StoreFailed, match=r"403: AccessDenied: No\\x7f \\u202ereally") as caught:
        async with store:
            await read(store, "in/a", 3)
    assert str(caught.value).isprintable()


async def test_what_is_put_says_its_length_and_digest() -> None:
    store, wires = client(Wire(OK + b"content-length: 0\r\n\r\n", OK + b"content-length: 0\r\n\r\n"))
    async with store:
        await store.put("in/a", b"data")
        await store.put("in/empty", b"")
    heard = wires.used[0].heard.decode().lower()
    assert "put /lake/in/a http/1.1" in heard
    assert "content-length: 4" in heard
    assert hashlib.sha256(b"data").hexdigest() in heard
    assert hashlib.sha256(b"").hexdigest() in heard


async def test_a_stream_that_is_not_as_long_as_it_said_is_no_object() -> None:
    for content in (pieces(b"abc"), pieces(b"abcde", b"f")):
        store, wires = client(Wire(OK + b"content-length: 0\r\n\r\n"))
        with pytest.raises(StoreFailed, match="not what it said"):
            async with store:
                await store.put_stream("in/a", content, 5)
        assert wires.used[0].closed


async def test_what_the_content_raises_is_raised_and_the_connection_broken() -> None:
    async def shrinking() -> AsyncIterator[bytes]:
        yield b"abc"
        raise LookupError("it is gone")

    store, wires = client(Wire())
    with pytest.raises(LookupError):
        async with store:
            await store.put_stream("in/a", shrinking(), 5)
    assert wires.used[0].closed


async def test_a_store_that_hears_no_more_may_have_said_why() -> None:
    body = b"<Error><Code>SlowDown</Code><Message>later</Message></Error>"
    says = b"HTTP/1.1 429 Slow\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    store, _ = client(Wire(says, takes=300))
    with pytest.raises(StoreFailed, match="429: SlowDown: later"):
        async with store:
            await store.put("in/a", b"x" * 1000)


async def test_a_page_is_asked_for_below_the_prefix() -> None:
    page = b"<ListBucketResult><Contents><Key>in/a</Key><Size>1</Size></Contents></ListBucketResult>"
    head = OK + b"content-length: %d\r\n\r\n" % len(page)
    store, wires = client(Wire(head + page, head + page))
    async with store:
        assert (await store.page("")).objects[0].key == "in/a"
        await store.page("a+b/c=")
    lines = [line for line in wires.used[0].heard.decode().split("\r\n") if line.startswith("GET")]
    assert lines == [
        "GET /lake?list-type=2&max-keys=1000&prefix=in%2F HTTP/1.1",
        "GET /lake?continuation-token=a%2Bb%2Fc%3D&list-type=2&max-keys=1000&prefix=in%2F HTTP/1.1",
    ]


@given(st.lists(st.binary(max_size=40), max_size=8))
async def test_whatever_a_store_says_is_an_object_or_a_failure(says: list[bytes]) -> None:
    store, _ = client(Wire(*filter(None, says)), Wire())
    try:
        async with store:
            await read(store, "in/a", 3)
    except StoreFailed:
        return
