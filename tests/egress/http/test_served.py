"""TLS that ends in the gateway, requests that are rebuilt, servers that are verified: the whole of a connection, on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dayfly.egress import served
from dayfly.egress.authority import make_authority
from dayfly.egress.http import serving, stream
from dayfly.egress.http.messages import Refused, Request, Response, Upstreams
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from tests.egress.canary import Canary, Visit, until
from tests.egress.http.desk import HOST, Desk, Passing, asked, client_context, response, server_context

BIG = bytes(range(256)) * 4096 * 8
"""8 MiB."""


async def site(visit: Visit) -> None:
    """Says what it was asked: the head as it came, or the digest of what was sent."""
    while True:
        try:
            head = await visit.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        visit.said += head
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await _content(visit, fields)
        path = first.split(" ")[1]
        if path == "/hang-up":
            visit.reset()
            return
        if path == "/half":
            visit.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            await visit.writer.drain()
            visit.writer.close()
            return
        answer = BIG if path == "/big" else hashlib.sha256(body).hexdigest().encode() if body else head
        visit.writer.write(b"HTTP/1.1 200 OK\r\nX-Server: yes\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n")
        if path == "/chunked":
            visit.writer.write(
                b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Trailer: 1\r\n\r\n"
            )
        else:
            visit.writer.write(b"Content-Length: %d\r\n\r\n" % len(answer))
            visit.writer.write(b"" if first.startswith("HEAD") else answer)
        await visit.writer.drain()


async def _content(visit: Visit, fields: dict[str, str]) -> bytes:
    if "content-length" in fields:
        return await visit.reader.readexactly(int(fields["content-length"]))
    found = b""
    if fields.get("transfer-encoding") == "chunked":
        while size := int((await visit.reader.readuntil(b"\r\n")).strip(), 16):
            found += await visit.reader.readexactly(size)
            await visit.reader.readexactly(2)
        await visit.reader.readexactly(2)
    return found


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Canary]:
    made = await Canary(site).listen(tls=server_context())
    yield made
    await made.close()


@pytest.fixture
def service(server: Canary, monkeypatch: pytest.MonkeyPatch) -> Passing:
    made = Passing(server.port)
    monkeypatch.setattr(served, "service_of", lambda allowed, terms: made)
    return made


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {HOST}", *lines, "", ""]).encode("latin-1")


async def test_a_request_is_rebuilt_and_its_answer_comes_back(server: Canary, service: Passing) -> None:
    desk = Desk()
    lines = ("X-Mine: 1", "Connection: X-Gone, close", "X-Gone: 1", "TE: trailers", "Accept: a")
    [(status, headers, body)] = await asked(desk, get("/%76/x?a=%2e", *lines))
    assert status == 200
    assert dict(headers)["x-server"] == "yes"
    assert "x-hop" not in dict(headers)
    assert body.decode().split("\r\n") == [
        "GET /v/x?a=%2e HTTP/1.1",
        f"host: {HOST}:{server.port}",
        "x-mine: 1",
        "accept: a",
        "",
        "",
    ]
    assert (await desk.over())["why"] == "done"
    assert desk.said.of("connected")[0]["address"] == ""
    [told] = desk.said.of("request")
    assert (told["method"], told["path"], told["status"], told["address"]) == ("GET", "/v/x", 200, "127.0.0.1")


async def test_requests_follow_each_other_on_one_connection_to_the_server(server: Canary, service: Passing) -> None:
    desk = Desk()
    post = f"POST /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\n\r\nabc".encode()
    chunks = (
        f"PUT /x HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n".encode()
    )
    head = f"HEAD /x HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    found = await asked(desk, get("/1"), post, chunks, head, get("/chunked"), get("/2"))
    digest = hashlib.sha256(b"abc").hexdigest().encode()
    assert [status for status, _, _ in found] == [200] * 6
    assert [body for _, _, body in found][1:5] == [digest, digest, b"", b"abcdefg"]
    assert len(server.visits) == 1
    assert desk.resolver.asked == [HOST]


async def test_requests_may_come_all_at_once(server: Canary, service: Passing) -> None:
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(get("/1") + get("/2") + get("/3"))
    found = [await response(reader) for _ in range(3)]
    assert [body.split(b" ")[1] for _, _, body in found] == [b"/1", b"/2", b"/3"]
    writer.close()


async def test_much_goes_through_in_both_directions(server: Canary, service: Passing) -> None:
    desk = Desk()
    put = f"PUT /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(BIG)}\r\nExpect: 100-continue\r\n\r\n".encode()
    reader, writer = await desk.tls()
    writer.write(put)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    writer.write(BIG)
    assert (await response(reader))[2] == hashlib.sha256(BIG).hexdigest().encode()
    writer.write(get("/big"))
    assert (await response(reader))[2] == BIG
    writer.close()
    last = await desk.over()
    assert last["sent"] > len(BIG) < last["received"]


@pytest.mark.parametrize("name", ["evil.example.net", "other.example.com"])
async def test_a_handshake_for_another_name_is_refused(server: Canary, service: Passing, name: str) -> None:
    desk = Desk()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await desk.tls(name)
    last = await desk.over()
    assert (last["op"], last["why"], last["code"]) == ("closed", "sni_mismatch", "sni_mismatch")
    assert not server.visits


async def test_a_handshake_without_a_name_is_refused(service: Passing) -> None:
    desk = Desk()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(sock=desk.end, ssl=context, server_hostname="")
    assert (await desk.over())["code"] == "sni_mismatch"


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x00\x05hello"]
)
async def test_what_is_no_tls_is_refused(service: Passing, first: bytes) -> None:
    desk = Desk()
    desk.end.sendall(first)
    assert (await desk.over())["code"] == "not_tls"


async def test_a_client_that_does_not_believe_the_authority_is_told_of(service: Passing) -> None:
    desk = Desk()
    context = client_context(make_authority())
    desk.end.setblocking(True)
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(context.wrap_socket, desk.end, server_hostname=HOST)
    last = await desk.over()
    assert last["code"] == "not_trusted"
    assert "SSL_CERT_FILE" in last["remedy"]


async def test_a_client_that_says_nothing_breaks_no_rule(service: Passing) -> None:
    desk = Desk()
    desk.end.close()
    last = await desk.over()
    assert (last["why"], last["code"]) == ("done", None)


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (get("/").replace(HOST.encode(), b"evil.example.net"), 403, "host_mismatch"),
        (get("https://evil.example.net/"), 403, "host_mismatch"),
        (get("/a/../b"), 400, "bad_request"),
        (get("/a%2fb"), 400, "bad_request"),
        (get("/", "Content-Length: 1", "Transfer-Encoding: chunked"), 400, "bad_request"),
        (get("/", "X: a", " folded: 1"), 400, "bad_request"),
        (b"GET / HTTP/1.1\nHost: api.example.com\n\n", 400, "bad_request"),
        (get("/", "Upgrade: websocket", "Connection: upgrade"), 400, "bad_request"),
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"\r\n" + get("/"), 400, "bad_request"),
        (b"\r\n\r\n" + get("/"), 400, "bad_request"),
    ],
)
async def test_what_could_mean_two_things_is_answered_and_goes_nowhere(
    server: Canary, service: Passing, request_: bytes, status: int, code: str
) -> None:
    desk = Desk()
    [found] = await asked(desk, request_)
    assert (found[0], dict(found[1])["x-dayfly-denied"]) == (status, code)
    assert not server.visits
    assert not desk.resolver.asked
    await desk.over()
    assert [one["code"] for one in desk.said.of("request")] == [code]


async def test_a_request_that_the_service_denies_leaves_the_connection_as_it_was(
    server: Canary, service: Passing
) -> None:
    desk = Desk()

    async def deny(request: Request, upstreams: Upstreams) -> Response:
        if request.path == "/no":
            raise Refused(Denied(HOST, 443, "request_not_listed", "No.", "Ask."))
        return await upstreams.send(service.origin, request)

    service.answer = deny  # type: ignore[method-assign]
    body = f"POST /no HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\n\r\nabc".encode()
    found = await asked(desk, get("/no"), body, get("/yes"))
    assert [one[0] for one in found] == [403, 403, 200]
    assert b"/no" not in bytes(server.visits[0].said)


async def test_a_body_that_nobody_asked_for_is_not_taken_for_a_request_nor_a_request_for_it(
    server: Canary, service: Passing
) -> None:
    async def deny(request: Request, upstreams: Upstreams) -> Response:
        raise Refused(Denied(HOST, 443, "request_not_listed", "No.", "Ask."))

    service.answer = deny  # type: ignore[method-assign]
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(f"PUT /no HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 300\r\nExpect: 100-continue\r\n\r\n".encode())
    status, headers, _ = await response(reader)
    assert (status, dict(headers)["connection"]) == (403, "close")
    writer.write(get("/smuggled") * 10)
    writer.close()
    await desk.over()
    assert [one["path"] for one in desk.said.of("request")] == ["/no"]


async def test_of_a_body_that_nobody_wanted_so_much_is_read_and_then_the_connection_ends(
    service: Passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deny(request: Request, upstreams: Upstreams) -> Response:
        raise Refused(Denied(HOST, 443, "request_not_listed", "No.", "Ask."))

    service.answer = deny  # type: ignore[method-assign]
    monkeypatch.setattr(serving, "MOST_LEFT", 3)
    desk = Desk()
    reader, writer = await desk.tls()
    begun = f"PUT /no HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    writer.write(begun + b"1\r\na\r\n" * 4 + b"0\r\n\r\n" + get("/next"))
    assert (await response(reader))[0] == 403
    assert (await desk.over())["why"] == "done"
    assert [one["path"] for one in desk.said.of("request")] == ["/no"]


async def test_a_service_that_fails_costs_one_connection(service: Passing) -> None:
    desk = Desk()
    service.origin = None  # type: ignore[assignment]
    reader, writer = await desk.tls()
    writer.write(get("/"))
    assert await reader.read() == b""
    assert (await desk.over())["why"] == "failed"


# --- servers ----------------------------------------------------------------------------------------------------------


async def test_a_server_with_a_certificate_of_nobodys_is_not_spoken_to(service: Passing) -> None:
    other = await Canary(site).listen(tls=server_context(authority=make_authority()))
    service.origin = Passing(other.port).origin
    [(status, _, body)] = await asked(Desk(), get("/secret"))
    assert (status, b"certificate is not valid" in body) == (502, True)
    assert b"SSL_CERT_FILE" in body
    assert not other.visits, "a handshake that it ends is none"
    await other.close()


async def test_a_server_with_a_certificate_for_another_name_is_not_spoken_to(service: Passing) -> None:
    context = server_context("other.example.com")
    context.sni_callback = None
    other = await Canary(site).listen(tls=context)
    service.origin = Passing(other.port).origin
    [(status, _, body)] = await asked(Desk(), get("/"))
    assert (status, b"certificate is not valid" in body) == (502, True)
    assert b"SSL_CERT_FILE" not in body
    await other.close()


async def test_a_name_that_leads_below_the_floor_is_denied(service: Passing) -> None:
    service.origin = Passing(443, private=None).origin
    desk = Desk()
    [(status, headers, _)] = await asked(desk, get("/"))
    assert (status, dict(headers)["x-dayfly-denied"]) == (403, "private_address")


async def test_nobody_there_is_an_answer(service: Passing) -> None:
    service.origin = Passing(1).origin
    [(status, headers, body)] = await asked(Desk(), get("/"))
    assert (status, b"connection refused" in body) == (502, True)
    assert "x-dayfly-denied" not in dict(headers)


async def test_a_server_that_hangs_up_is_an_answer_and_the_next_request_has_another_connection(
    server: Canary, service: Passing
) -> None:
    found = await asked(Desk(), get("/1"), get("/hang-up"), get("/2"))
    assert [one[0] for one in found] == [200, 502, 200]


async def test_half_an_answer_does_not_look_like_a_whole_one(server: Canary, service: Passing) -> None:
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(get("/half"))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await response(reader)
    assert (await desk.over())["why"] == "reset"


async def test_a_client_that_breaks_off_in_its_body_ends_what_the_server_hears(
    server: Canary, service: Passing
) -> None:
    desk = Desk()
    _, writer = await desk.tls()
    writer.write(f"POST /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 100\r\n\r\nabc".encode())
    visit = await server.visit()
    await until(lambda: b"POST" in visit.said)
    writer.transport.abort()
    assert (await desk.over())["why"] in ("ended", "reset")
    await asyncio.wait_for(visit.over.wait(), 10)


# --- caps and ends ----------------------------------------------------------------------------------------------------


async def test_max_bytes_end_the_connection_amid_a_body(server: Canary, service: Passing) -> None:
    desk = Desk(max_bytes=100_000)
    reader, writer = await desk.tls()
    writer.write(get("/big"))
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await response(reader)
    last = await desk.over()
    assert (last["why"], last["code"]) == ("byte_cap", "byte_cap")
    assert last["received"] <= 100_000


async def test_a_rate_is_kept(server: Canary, service: Passing) -> None:
    desk = Desk(rate=4 * 2**20)
    begun = asyncio.get_running_loop().time()
    await asked(desk, get("/big"))
    assert asyncio.get_running_loop().time() - begun > 1.5  # 8 MiB at 4 MiB a second, less what may go at once


async def test_rules_that_change_end_what_they_do_not_allow_any_more(server: Canary, service: Passing) -> None:
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(get("/1"))
    await response(reader)
    desk.guest.admit(Terms(rules=(desk.rule.model_copy(update={"max_bytes": 10**9}),), authority=desk.authority))
    desk.passage.judge_again()
    writer.write(get("/2"))
    assert (await response(reader))[0] == 200
    desk.guest.admit(Terms(rules=(desk.rule.model_copy(update={"methods": ("POST",)}),), authority=desk.authority))
    desk.passage.judge_again()
    assert await reader.read() == b""
    assert (await desk.over())["why"] == "revoked"


async def test_a_sandbox_that_goes_takes_the_connection_to_the_server_along(server: Canary, service: Passing) -> None:
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(get("/1"))
    await response(reader)
    desk.passage.end("withdrawn")
    assert (await desk.over())["why"] == "withdrawn"
    await asyncio.wait_for(server.visits[0].over.wait(), 10)


async def test_clients_that_say_nothing_more_are_let_go(service: Passing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.05)
    desk = Desk()
    reader, _ = await desk.tls()
    assert await reader.read() == b""
    assert (await desk.over())["why"] == "done"


async def test_clients_that_stop_to_read_an_answer_are_let_go(
    server: Canary, service: Passing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "TAKEN_SECONDS", 0.05)
    desk = Desk()
    reader, writer = await desk.tls()
    writer.write(get("/big"))
    last = await desk.over()
    assert (last["why"], last["code"]) == ("ended", None)
    assert 0 < last["received"] < len(BIG)
    await asyncio.wait_for(server.visits[0].over.wait(), 10)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await response(reader)
