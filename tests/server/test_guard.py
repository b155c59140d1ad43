"""What a web page may not do, and what is too long."""

from __future__ import annotations

import asyncio
import gzip
import re
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from dayfly.server import Configuration
from dayfly.server.guard import MAX_BODY, MAX_HEADERS, MAX_PATH, MAX_QUERY, Guard
from tests.server.house import House


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "10.0.0.1"])
def test_a_name_that_is_not_loopbacks_is_refused(client: httpx.Client, host: str) -> None:
    for path in ("/v1/usage", "/healthz", "/nothing"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code in (400, 403)
    assert client.get("/v1/usage", headers={"host": "evil.example"}).json()["error"]["code"] == "request_refused"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8700", "127.0.0.1", "127.0.0.1:1", "[::1]:8700"])
def test_loopbacks_own_names_pass(client: httpx.Client, host: str) -> None:
    assert client.get("/v1/usage", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:3000"},
     {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
)  # fmt: skip
def test_a_web_page_is_refused(client: httpx.Client, headers: dict[str, str]) -> None:
    answer = client.post("/v1/sandboxes", json={}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "request_refused")
    assert "access-control-allow-origin" not in answer.headers


async def judged(configuration: Configuration, **headers: str) -> int:
    """The status that a guard gives by itself, or 200 if it lets the request through."""
    sent: list[int] = []

    async def app(scope: object, receive: object, send: object) -> None:
        sent.append(200)

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            sent.append(message["status"])  # type: ignore[arg-type]

    listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http", "method": "GET", "path": "/healthz", "raw_path": b"/healthz", "query_string": b"", "headers": listed,
    }  # fmt: skip
    services: Any = SimpleNamespace(configuration=configuration)
    await Guard(app, services)(scope, None, send)  # type: ignore[arg-type]
    return sent[0]


async def test_pages_and_names_that_the_configuration_lists_pass() -> None:
    listing = Configuration(hosts={"box.example"}, origins={"https://notebook.example"})
    assert await judged(listing, host="box.example", origin="https://notebook.example") == 200
    assert await judged(listing, host="box.example", origin="https://other.example") == 403
    assert await judged(listing, host="other.example") == 403


async def test_behind_a_proxy_the_names_are_the_proxys_business_unless_listed() -> None:
    assert await judged(Configuration(behind_proxy=True), host="any.example") == 200
    listing = Configuration(behind_proxy=True, hosts={"box.example"})
    assert [await judged(listing, host=name) for name in ("box.example", "any.example")] == [200, 403]


def test_a_long_path_query_or_head_is_refused(client: httpx.Client) -> None:
    for path in ("/" + "x" * MAX_PATH, "/v1/usage?" + "x" * (MAX_QUERY + 1)):
        assert client.get(path).json()["error"]["code"] == "uri_too_long"
    assert client.get("/v1/usage", headers={"x": "x" * MAX_HEADERS}).json()["error"]["code"] == "headers_too_long"
    assert client.get("/v1/usage?" + "x" * MAX_QUERY).status_code == 200


def test_a_head_without_an_end_is_refused(server: House) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 100_000)
        assert b" 400 " in raw.recv(4096)


def test_a_large_body_is_refused_before_it_is_read_whole(server: House, client: httpx.Client) -> None:
    pretenders = ("/v1/conversations/x/stdin", "/v1/conversations/processes/1/stdin", "/v1/keys/stdin")
    for path in ("/v1/sandboxes", *pretenders):  # none of these streams, whatever its last part is called
        for content in (b" " * (MAX_BODY + 1), iter([b" " * MAX_BODY, b" "])):  # the second without a length
            answer = client.post(path, content=content, headers={"content-type": "application/json"})
            assert answer.status_code in (404, 405, 413) if path == "/v1/keys/stdin" else answer.status_code == 413
    key = server.key()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {10**12}\r\n\r\n".encode())
        assert b" 413 " in raw.recv(4096), "by its announced length"


SMUGGLED = b"GET /v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""What somebody behind a proxy would have answered to somebody else."""


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2, 3",
        "Content-Length: +2",
        "Content-Length: 0x2",
        "Content-Length : 2",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: 2\r\nX: a\n",
        "X: a\x00b",
    ],
)
def test_a_body_of_two_lengths_smuggles_nothing(server: House, lines: str) -> None:
    """It is refused, and its connection ends there."""
    said = f"POST /v1/conversations/smuggled HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key()}\r\n{lines}\r\n\r\n"
    answers = spoken(server, said.encode("latin-1") + b"0\r\n\r\n" + SMUGGLED + LAST)
    assert answers
    assert set(answers) <= {b"400", b"403", b"501"}, "nothing behind it is taken for a request"


def spoken(server: House, said: bytes) -> list[bytes]:
    """Statuses of all answers on one connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(said)
        heard = b"".join(iter(lambda: raw.recv(65536), b""))
    return re.findall(rb"HTTP/1\.1 (\d+) ", heard)


def test_requests_that_come_together_are_judged_one_by_one(server: House) -> None:
    known = f"GET /v1/usage HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key()}\r\n\r\n".encode()
    assert spoken(server, known + SMUGGLED + known + LAST) == [b"200", b"401", b"200", b"200"]


def test_http_2_is_not_spoken(server: House) -> None:
    """So there are no streams to be reset."""
    assert spoken(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64) + LAST) == [b"403"]
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    assert spoken(server, upgrade + LAST) == [b"200", b"200"]


def test_a_compressed_body_is_not_unpacked(client: httpx.Client) -> None:
    bomb = gzip.compress(b'{"policy":' + b" " * (64 << 20) + b"{}}")
    assert len(bomb) < MAX_BODY
    head = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = client.post("/v1/sandboxes", content=bomb, headers=head)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "input_error")


def test_who_shows_no_key_has_no_body_read(server: House) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        head = "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode())
        assert b" 401 " in raw.recv(4096), "it is answered before any of its body has come"


def test_what_is_malformed_is_told_in_the_documented_form(client: httpx.Client) -> None:
    bad = [
        client.post("/v1/sandboxes", content=b"{", headers={"content-type": "application/json"}),
        client.post("/v1/sandboxes", content=b"\xff", headers={"content-type": "application/json"}),
        client.post("/v1/sandboxes", json={"polcy": {}}),
        client.post("/v1/sandboxes", json={"env": {"A=B": "secret-value"}}),
        client.post("/v1/sandboxes", json=[1]),
    ]
    for answer in bad:
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "input_error")
        assert answer.json()["error"]["remedy"]
        assert "secret-value" not in answer.text
    assert client.get("/v1/nothing").json()["error"]["code"] == "no_such_route"
    assert client.put("/v1/sandboxes").json()["error"]["code"] == "wrong_method"


def test_a_mistake_of_ours_is_told_without_what_it_was_about(
    server: House, client: httpx.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tenant: str) -> None:
        raise ValueError("secret value")

    monkeypatch.setattr(server.services.tenants, "usage", broken)
    answer = client.get("/v1/usage")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    server.call(asyncio.sleep(0))  # the step that answered has ended by then
    told = [record.facts for record in caplog.records if record.getMessage() == "internal error"]  # type: ignore[attr-defined]
    assert (told[0]["error"], "test_guard.py" in told[0]["place"]) == ("ValueError", True)
    assert "secret value" not in answer.text + caplog.text
    monkeypatch.undo()
    assert client.get("/v1/usage").status_code == 200


def test_answers_are_harmless_in_a_browser(client: httpx.Client) -> None:
    for path in ("/healthz", "/v1/usage", "/v1/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "sandbox" in headers["content-security-policy"]
        assert "server" not in headers


async def test_a_request_is_logged_after_its_answer_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a request has written leaves with the next turn of the loop, and the log's thread is not woken before."""
    happened: list[str] = []
    monkeypatch.setattr("dayfly.server.guard.log_request", lambda *facts: happened.append("logged"))
    loop = asyncio.get_running_loop()

    async def app(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: dict[str, object]) -> None:
        loop.call_soon(happened.append, "left")  # as the transport does

    services: Any = SimpleNamespace(configuration=Configuration(host="0.0.0.0", behind_proxy=True))
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/healthz",
        "raw_path": b"/healthz",
        "query_string": b"",
        "headers": [],
    }
    await Guard(app, services)(scope, None, send)  # type: ignore[arg-type]
    assert happened == []
    await asyncio.sleep(0)
    assert happened == ["left", "logged"]
