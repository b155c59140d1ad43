"""Requests to the host of a rule, over the whole of the gateway: TLS that ends in it, and a real server behind verified TLS."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dayfly.egress.http.messages import Headers, Origin, Refused, Request, Response, once
from dayfly.egress.services.requests import HostRequests
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import CODES
from dayfly.network import Rule
from tests.egress.canary import Canary, Visit
from tests.egress.http.desk import HOST, Desk, asked, server_context
from tests.secrets.canary import CANARY, seen_in

MINE = "the-codes-own-credential"


async def echo(visit: Visit) -> None:
    """Sends back what it was sent, as debugging sites do, in the way that the path names."""
    while True:
        try:
            head = await visit.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        visit.said += head
        path = head.split(b" ")[1].partition(b"?")[0]
        lines = {name.lower(): value for name, _, value in (one.partition(b": ") for one in head.split(b"\r\n")[1:])}
        await visit.reader.readexactly(int(lines.get(b"content-length", b"0")))
        answer = gzip.compress(head) if path == b"/gzip" else head
        told = [b"HTTP/1.1 200 OK", b"X-Sent: " + head.replace(b"\r\n", b" "), b"X-Dayfly-Denied: not_listed"]
        if path == b"/gzip":
            told.append(b"Content-Encoding: gzip")
        if path == b"/stream":
            visit.writer.write(b"\r\n".join([*told, b"Transfer-Encoding: chunked", b"", b""]))
            for byte in answer:
                visit.writer.write(b"1\r\n" + bytes([byte]) + b"\r\n")
            visit.writer.write(b"0\r\n\r\n")
        else:
            visit.writer.write(b"\r\n".join([*told, b"Content-Length: %d" % len(answer), b"", b""]))
            visit.writer.write(b"" if head.startswith(b"HEAD") else answer)
        await visit.writer.drain()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Canary]:
    made = await Canary(echo).listen(tls=server_context())
    yield made
    await made.close()


def desk(server: Canary, secret: str | None = CANARY, **rule: Any) -> Desk:
    made = Desk(server.port, **rule)
    secrets = {} if secret is None else {"crm": secret}
    made.guest.admit(Terms(rules=(made.rule,), authority=made.authority, secrets=secrets))
    return made


def asking(path: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {HOST}", *lines, "", ""]).encode("latin-1")


def text_of(answer: tuple[int, Headers, bytes]) -> str:
    return f"{answer[0]} {answer[1]} {answer[2].decode('latin-1')}"


FORMS: list[tuple[dict[str, Any], str]] = [
    ({}, f"authorization: Bearer {CANARY}"),
    ({"into": "header", "name": "X-Api-Key"}, f"x-api-key: {CANARY}"),
    ({"into": "query", "name": "key"}, "/echo?a=1&key=sk-canary%2F9f3%2Ba7b2%3Dc4e1%26d6f8 HTTP/1.1"),
]


@pytest.mark.parametrize(("inject", "expected"), FORMS, ids=["bearer", "header", "query"])
async def test_the_server_gets_the_secret_and_nothing_of_the_codes_own(
    server: Canary, inject: dict[str, Any], expected: str
) -> None:
    mine = [f"Authorization: Bearer {MINE}"] if not inject else [f"X_Api_Key: {MINE}", f"X-API-KEY: {MINE}"]
    mine = [] if inject.get("into") == "query" else mine
    query = f"a=1&k%65y={MINE}" if inject.get("into") == "query" else "a=1"
    one = desk(server, inject={"secret": "crm", **inject})
    [answer] = await asked(one, asking(f"/echo?{query}", *mine))
    said = bytes(server.visits[0].said).decode("latin-1")
    assert expected in said
    assert MINE not in said
    assert seen_in(text_of(answer))  # the control: this server sends it back, and no rule has said that it may not
    [told] = one.said.of("request")
    assert (told["status"], told["secret"], told["rule"]) == (200, "crm", 0)
    assert not seen_in(str(one.said.packets))


async def test_basic(server: Canary) -> None:
    await asked(desk(server, "user:päss", inject={"secret": "crm", "into": "basic"}), asking("/"))
    coded = base64.b64encode("user:päss".encode()).decode()
    assert f"authorization: Basic {coded}\r\n" in bytes(server.visits[0].said).decode("latin-1")


@pytest.mark.parametrize("path", ["/echo", "/stream"])
@pytest.mark.parametrize(("inject", "expected"), FORMS, ids=["bearer", "header", "query"])
async def test_with_redact_nothing_of_it_comes_back(
    server: Canary, inject: dict[str, Any], expected: str, path: str
) -> None:
    one = desk(server, inject={"secret": "crm", "redact": True, **inject})
    lines = ("Accept-Encoding: gzip", "Range: bytes=0-20", "X-Mine: 1")
    for answer in await asked(one, asking(path + "?a=1", *lines), asking("/echo?a=1", method="HEAD")):
        assert answer[0] == 200
        assert not seen_in(text_of(answer))
        assert "*redacted*" in text_of(answer)
    said = bytes(server.visits[0].said).decode("latin-1").lower()
    assert expected.removeprefix("/echo").lower() in said  # the control: it was there
    assert ("x-mine: 1" in said, "accept-encoding: identity" in said) == (True, True)
    assert "gzip" not in said
    assert "range" not in said
    assert [one["secret"] for one in one.said.of("request")] == ["crm", "crm"]


async def test_of_basic_the_password_alone_is_taken_out_too(server: Canary) -> None:
    one = desk(server, f"user:{CANARY}", inject={"secret": "crm", "into": "basic", "redact": True})
    [answer] = await asked(one, asking("/echo"))
    coded = base64.b64encode(f"user:{CANARY}".encode()).decode()
    assert coded in bytes(server.visits[0].said).decode("latin-1")
    assert coded not in text_of(answer)
    spellings = HostRequests.of(Terms(rules=(one.rule,), secrets={"crm": f"user:{CANARY}"}), 0, HOST, 443)._spellings
    assert spellings is not None
    assert not seen_in(spellings.cleaned(f"your password is {CANARY}".encode()).decode())


async def test_an_answer_in_which_it_could_not_be_found_is_not_passed(server: Canary) -> None:
    one = desk(server, inject={"secret": "crm", "redact": True})
    first, second = await asked(one, asking("/gzip"), asking("/echo"))
    assert (first[0], dict(first[1])["x-dayfly-denied"]) == (403, "cannot_redact")
    assert not seen_in(text_of(first))
    assert second[0] == 200  # the connection goes on
    plain = desk(server, inject={"secret": "crm"})
    assert (await asked(plain, asking("/gzip")))[0][0] == 200  # the control


async def test_what_is_not_listed_reaches_nobody(server: Canary) -> None:
    one = desk(server, methods=["GET"], paths=["/v1/*"], inject={"secret": "crm"})
    wrong = [
        asking("/v1/x", method="DELETE"),
        asking("/v2/x"),
        asking("/v1/%2e%2e/v2"),
        asking("/v1/%252e%252e/v2"),
        asking("/v1/x", "X-HTTP-Method-Override: DELETE"),
        asking("/v1/x", "X-Original-URL: /v2"),
    ]
    answers = await asked(one, *wrong, asking("/v1/x"))
    codes = [dict(headers).get("x-dayfly-denied") for _, headers, _ in answers]
    assert codes == [*["request_not_listed"] * 2, "bad_request", *["request_not_listed"] * 3, None]
    assert [status for status, _, _ in answers] == [403, 403, 400, 403, 403, 403, 200]
    assert bytes(server.visits[0].said).count(b"HTTP/1.1\r\n") == 1
    assert answers[1][2].decode() == (
        "The network policy allows GET at /v1/* on api.example.com, and this was GET /v2/x. "
        "Use GET at /v1/*, or ask for a rule with paths = [..., '/v2/x'].\n"
    )
    assert [one["secret"] for one in one.said.of("request")][:2] == [None, None]


async def test_what_a_server_says_is_never_taken_for_a_denial(server: Canary) -> None:
    [(status, headers, _)] = await asked(desk(server), asking("/", "X-Dayfly-Secret: 1", "x_dayfly_secret: 1"))
    assert (status, [name for name, _ in headers if "dayfly" in name]) == (200, [])
    assert b"dayfly" not in bytes(server.visits[0].said).lower()


@pytest.mark.parametrize(
    ("secret", "inject"),
    [
        (None, {}),
        ("", {}),
        ("a\r\nX-Admin: 1", {}),
        ("no-colon", {"into": "basic"}),
        ("short", {"redact": True}),
        ("a-long-user:short", {"into": "basic", "redact": True}),
    ],
)
async def test_without_a_usable_secret_nothing_goes_out(
    server: Canary, secret: str | None, inject: dict[str, Any]
) -> None:
    one = desk(server, secret, inject={"secret": "crm", **inject})
    [(status, headers, body)] = await asked(one, asking("/"))
    assert (status, dict(headers)["x-dayfly-denied"]) == (403, "no_secret")
    assert server.visits == []
    assert secret is None or not secret or secret.encode() not in body


class Scripted:
    """Servers that answer with one response, and keep what they were asked."""

    def __init__(self, answer: Response) -> None:
        self.answer = answer
        self.sent: list[tuple[Origin, Request]] = []

    async def send(self, origin: Origin, request: Request) -> Response:
        self.sent.append((origin, request))
        return self.answer


def service(secret: str = CANARY, **inject: Any) -> HostRequests:
    found = rule_of(inject={"secret": "crm", **inject})
    return HostRequests.of(Terms(rules=(found,), secrets={"crm": secret}), 0, HOST, 443)


def rule_of(**more: Any) -> Rule:
    return Rule(host=HOST, **more)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, (("content-encoding", "gzip"),)),
        (200, (("content-encoding", "identity"), ("content-encoding", "BR"))),
        (200, (("content-type", "Multipart/Byteranges; boundary=x"),)),
        (206, ()),
        (226, ()),
    ],
)
async def test_parts_and_encodings_are_refused_and_their_bodies_closed(status: int, headers: Headers) -> None:
    closed = []

    class Body:
        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> bytes:
            return b"x"

        async def aclose(self) -> None:
            closed.append(True)

    servers = Scripted(Response(status, headers, Body(), None))
    with pytest.raises(Refused) as refused:
        await service(redact=True).answer(Request("GET", "/"), servers)
    assert refused.value.denied.code == "cannot_redact"
    assert refused.value.denied.code in CODES
    assert closed == [True]
    assert (await service().answer(Request("GET", "/"), servers)).status == status


async def test_a_rewritten_body_has_no_length_and_digests_of_the_old_one_go() -> None:
    headers = (("content-md5", "x"), ("repr-digest", "x"), ("etag", "1"), (CANARY.lower()[:9] + "x", "1"))
    answer = await service(redact=True).answer(Request("GET", "/"), Scripted(Response(200, headers, once(b"abc"), 3)))
    assert (answer.length, dict(answer.headers).keys()) == (None, {"etag", "sk-canaryx"})
    head = await service(redact=True).answer(Request("HEAD", "/"), Scripted(Response(200, headers, length=3)))
    assert head.length == 3


async def test_a_header_whose_name_has_it_is_left_out() -> None:
    headers = (("x-Sk-Token-0123".lower(), "1"), ("x-other", "2"))
    answer = await service("Sk-Token-0123", redact=True).answer(Request("GET", "/"), Scripted(Response(200, headers)))
    assert answer.headers == (("x-other", "2"),)


async def test_a_secret_goes_over_verified_tls_only() -> None:
    one = service()
    plain = rule_of(protocol="tls", inject={"secret": "crm"}).model_copy(update={"protocol": "http"})
    servers = Scripted(Response(200))
    await one.answer(Request("GET", "/"), servers)
    assert servers.sent[0][0] == Origin("https", HOST, 443)
    with pytest.raises(Refused):
        await HostRequests.of(Terms.model_construct(rules=(plain,), secrets={"crm": CANARY}), 0, HOST, 80).answer(
            Request("GET", "/"), servers
        )
    assert len(servers.sent) == 1


async def test_a_plain_rule_adds_nothing_and_changes_nothing_else() -> None:
    rule = rule_of(ports=[80], methods=["GET"], private="10.0.0.0/8")
    servers = Scripted(Response(200, (("content-encoding", "gzip"),), once(b"x"), 1))
    request = Request("GET", "/a", "b=1", (("authorization", MINE), ("range", "bytes=0-1")))
    answer = await HostRequests.of(Terms(rules=(rule,)), 0, HOST, 80).answer(request, servers)
    assert servers.sent == [(Origin("http", HOST, 80, rule.private), request)]
    assert (answer.length, answer.headers, answer.rule, answer.secret) == (1, (("content-encoding", "gzip"),), 0, None)


async def test_the_value_is_in_no_text_of_anything() -> None:
    servers = Scripted(Response(200, (("x", CANARY),)))
    for inject in ({}, {"into": "query", "name": "key"}):
        one = service(**inject)
        answer = await one.answer(Request("GET", "/"), servers)
        [_, request] = servers.sent.pop()
        assert seen_in(request.query) or seen_in(str(request.headers))  # the control
        assert not seen_in(f"{one!r} {vars(one)!r} {request!r} {answer!r}")
