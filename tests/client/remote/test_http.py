"""What a library for HTTP may not do on the caller's behalf: show the key, ask twice, wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from dayfly import BadAnswer, InputError, ServerUnreachable
from dayfly.client.remote import events as events_module
from dayfly.client.remote import http as http_module
from dayfly.client.remote.address import Address
from dayfly.client.remote.events import Events
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import Http, proxy_for
from dayfly.client.remote.values import Fields, told_sandbox
from dayfly.client.streams import closing
from tests.client.remote.canned import SANDBOX, answer, canned

KEY = "dfk_abc_topsecret"
SOON = 10.0
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[Http]:
    """A client of a server that does ``serve`` with each connection."""

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    async with await asyncio.start_server(quietly, "127.0.0.1", 0) as server, asyncio.timeout(6 * SOON):
        http = Http(Address(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", KEY))
        try:
            yield http
        finally:
            await http.close()


def everything_about(error: BaseException | None) -> str:
    """As a program shows it that shows all."""
    told = ""
    while error is not None:
        told += f"{error!r} {error} {vars(error)}\n"
        error = error.__cause__ or error.__context__
    return told


# --- the key ----------------------------------------------------------------------------------------------------------


async def test_a_proxy_does_not_see_the_key_and_errors_show_neither_it_nor_the_proxys_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with canned(answer(b"", 403)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.replace("//", "//user:hidden@"))
        monkeypatch.delenv("no_proxy", raising=False)
        http = Http(Address("https://example.test", KEY))
        with pytest.raises(ServerUnreachable) as caught:
            await http.ask("GET", "/x")
        await http.close()
        assert proxy.heads[0].startswith("CONNECT example.test:443")
        assert KEY not in proxy.heads[0]
    assert KEY not in everything_about(caught.value)
    assert "hidden" not in everything_about(caught.value)


async def test_an_answer_that_is_no_http_shows_the_key_nowhere() -> None:
    async with canned(b"SSH-2.0-OpenSSH\r\n") as server:
        http = Http(Address(server.url, KEY))
        with pytest.raises(ServerUnreachable) as caught:
            await http.ask("GET", "/x")
        await http.close()
        assert KEY in server.heads[0], "it was sent"
    assert KEY not in everything_about(caught.value)


async def test_a_server_that_is_not_there_is_told_of_in_the_systems_words() -> None:
    async with serving(_says_nothing) as http:
        url = http.address.url
    again = Http(Address(url, KEY))
    with pytest.raises(ServerUnreachable) as caught:
        await again.ask("GET", "/x")
    await again.close()
    assert caught.value.message == f"no server answers at {url}: Connection refused"


async def _says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ends at once."""


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"https_proxy": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "p:1"}, "http://p:1"),
        ({"all_proxy": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "example.test"}, None),
        ({"https_proxy": "http://p:1", "no_proxy": "example.test:8443"}, None),
        ({"https_proxy": "http://p:1", "no_proxy": "example.test:9"}, "http://p:1"),
    ],
)
def test_the_environments_proxy(variables: dict[str, str], found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(Address("https://example.test:8443", KEY)) == found
    assert proxy_for(Address("http://example.test:8443", KEY)) is None


def test_a_proxy_that_is_none_for_http_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://p:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(InputError, match="no HTTP proxy"):
        proxy_for(Address("https://example.test", KEY))


# --- once -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("content", [None, b"abc"])
async def test_what_was_lost_on_a_connection_in_use_is_not_asked_again(method: str, content: bytes | None) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        asked.append(await reader.readuntil(b"\r\n\r\n"))  # and then it is cut

    async with serving(serve) as http:
        await http.ask("GET", "/first")
        with pytest.raises(ServerUnreachable):
            await http.ask(method, "/second", content=content)
        await asyncio.sleep(0)
    assert [head.split()[1] for head in asked] == [b"/first", b"/second"]


async def test_after_closing_nothing_is_asked_any_more() -> None:
    async with canned(answer({})) as server:
        http = Http(Address(server.url, KEY))
        await http.ask("GET", "/x")
        await http.close()
        with pytest.raises(ServerUnreachable, match="closed"):
            await http.ask("GET", "/x")
        assert len(server.heads) == 1


# --- not for ever -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [b"no chunk\r\n", b"", b"5\r\nab"], ids=["garbage", "nothing", "half"])
async def test_a_body_that_goes_on_wrongly_or_not_at_all_ends(later: bytes) -> None:
    more = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED + b"1\r\nx\r\n")
        await more.wait()
        writer.write(later)
        await reader.read()

    async with serving(serve) as http:
        found = await http.send("GET", "/", seconds=0.3)
        assert await found.piece() == b"x"
        more.set()
        with pytest.raises(ServerUnreachable):
            await found.whole(100)


async def test_a_server_that_does_not_take_what_is_sent_is_given_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    async with serving(serve) as http:
        for content in (endless(), bytes(64 << 20)):
            with pytest.raises(ServerUnreachable):
                await http.send("PUT", "/", content=content, seconds=0.3)


async def test_content_that_takes_its_time_is_waited_for() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(OK)

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x"
            await asyncio.sleep(0.3)

    async with serving(serve) as http:
        answered = await http.send("PUT", "/", content=slow(), seconds=0.2)
        assert await answered.whole(10) == b"{}"


async def test_an_answer_before_all_was_sent_is_the_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.read()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1000)
            await asyncio.sleep(0)

    async with serving(serve) as http:
        answered = await http.send("PUT", "/", content=endless())
        assert await answered.whole(10) == b"{}"
        await answered.aclose()


async def test_nobody_behind_a_proxy_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(http_module, "CONNECT_SECONDS", 0.2)
    async with serving(serve) as silent:
        monkeypatch.setenv("https_proxy", silent.address.url)
        monkeypatch.delenv("no_proxy", raising=False)
        http = Http(Address("https://example.test", KEY))
        with pytest.raises(ServerUnreachable):
            await http.send("GET", "/")
        await http.close()


async def test_a_refusal_while_the_content_is_waited_for_is_the_refusal_and_the_source_is_left() -> None:
    left = asyncio.Event()

    async def content() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            await asyncio.Event().wait()
        finally:
            left.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"", 404))
        await reader.read()

    async with serving(serve) as http, closing(content()) as source:
        with pytest.raises(BadAnswer, match="404"):
            await http.ask("PUT", "/", content=source)
        assert left.is_set()


async def test_who_is_cancelled_while_the_content_is_waited_for_stays_cancelled() -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(serve) as http, closing(content()) as source:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await http.ask("PUT", "/", content=source)


async def test_nothing_is_asked_before_there_is_something_to_send() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))

    async def broken() -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        raise LookupError("mine")
        yield b""

    async with serving(serve) as http:
        with pytest.raises(LookupError, match="mine"):
            await http.ask("PUT", "/", content=broken())
        await asyncio.sleep(0)
    assert heads == []


# --- events -----------------------------------------------------------------------------------------------------------


async def test_an_end_that_was_waited_for_in_vain_is_still_there() -> None:
    last = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = b'{"n":1,"type":"end"}\n'
        writer.write(CHUNKED + b"%x\r\n%s\r\n" % (len(line), line))
        await last.wait()
        writer.write(b"0\r\n\r\n")
        await reader.read()

    async with serving(serve) as http:
        events = Events(Held(http, told_sandbox(Fields(SANDBOX, "x"))), "GET", "/x")
        waiting = asyncio.ensure_future(events.next())
        while events._end is None:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        last.set()
        end = await events.next()
        assert end is not None
        assert end.text("type") == "end"
        assert await events.next() is None
        await events.close()


async def test_an_end_counts_also_if_the_answer_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = b'{"n":1,"type":"end"}\n'
        writer.write(CHUNKED + b"%x\r\n%s\r\n" % (len(line), line))
        await asyncio.Event().wait()

    monkeypatch.setattr(events_module, "FINISH_SECONDS", 0.2)
    async with serving(serve) as http:
        events = Events(Held(http, told_sandbox(Fields(SANDBOX, "x"))), "GET", "/x")
        end = await events.next()
        assert end is not None
        await events.close()


@pytest.mark.parametrize("apart", [True, False])
async def test_nothing_may_come_after_an_end(apart: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for line in (b'{"n":1,"type":"end"}\n', b'{"n":2,"type":"end"}\n'):
            writer.write((CHUNKED if b":1" in line else b"") + b"%x\r\n%s\r\n" % (len(line), line))
            await writer.drain()
            while apart and events._end is None:  # until it has been read
                await asyncio.sleep(0)
        await reader.read()

    async with serving(serve) as http:
        events = Events(Held(http, told_sandbox(Fields(SANDBOX, "x"))), "GET", "/x")
        with pytest.raises(BadAnswer, match="after the end"):
            await events.next()
        assert await events.next() is None
        await events.close()
