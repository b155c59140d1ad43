"""Heads of requests to the HTTP proxy, and what goes on of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.agent.network.requests import END, MAX_HEADERS, Unfit, Wanted, read


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1") + END


def get(target: str, *headers: str, host: str | None = "a.example") -> Wanted:
    return read(head(f"GET {target} HTTP/1.1", *([] if host is None else [f"Host: {host}"]), *headers))


def status(*lines: str) -> int:
    with pytest.raises(Unfit) as caught:
        read(head(*lines))
    return caught.value.status


def test_an_absolute_form_goes_on_in_origin_form() -> None:
    wanted = get("http://A.example/path?q=1", "Accept: */*", "X-Own:  spaced ")
    assert (wanted.host, wanted.port, wanted.body) == ("a.example", 80, 0)
    assert wanted.head == head(
        "GET /path?q=1 HTTP/1.1", "Host: a.example", "Accept: */*", "X-Own: spaced", "Connection: close"
    )


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        ("http://a.example", "a.example", ("a.example", 80, b"GET / HTTP/1.1")),
        ("http://a.example:80/", "a.example", ("a.example", 80, b"GET / HTTP/1.1")),
        ("http://a.example/", "a.example:80", ("a.example", 80, b"GET / HTTP/1.1")),
        ("HTTP://a.example:8080/x", "A.EXAMPLE:8080", ("a.example", 8080, b"GET /x HTTP/1.1")),
        ("http://a.example?x=/y", "a.example", ("a.example", 80, b"GET /?x=/y HTTP/1.1")),
        ("http://a.example./", "a.example", ("a.example", 80, b"GET / HTTP/1.1")),
        ("http://127.0.0.1/", "127.0.0.1", ("127.0.0.1", 80, b"GET / HTTP/1.1")),
        ("http://[::1]:8080/", "[::1]:8080", ("[::1]", 8080, b"GET / HTTP/1.1")),
    ],
)
def test_the_place_is_the_targets(target: str, host: str, expected: tuple[str, int, bytes]) -> None:
    wanted = get(target, host=host)
    assert (wanted.host, wanted.port, wanted.head.split(b"\r\n")[0]) == expected


def test_a_connect_names_host_and_port_and_has_no_head() -> None:
    for extra in (
        ["Host: a.example:443"],
        ["Host: a.example"],
        ["Host: a.example:443", "Proxy-Connection: Keep-Alive"],
    ):
        wanted = read(head("CONNECT a.example:443 HTTP/1.1", *extra))
        assert (wanted.host, wanted.port, wanted.head, wanted.body) == ("a.example", 443, b"", None)
    assert read(head("CONNECT a.example:22 HTTP/1.0")).port == 22


def test_headers_between_neighbours_do_not_go_on() -> None:
    wanted = get(
        "http://a.example/",
        "Connection: keep-alive, X-Private",
        "Keep-Alive: 5",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic x",
        "TE: trailers",
        "Upgrade: h2c",
        "X-Private: 1",
        "X-Public: 2",
    )
    assert wanted.head == head("GET / HTTP/1.1", "Host: a.example", "X-Public: 2", "Connection: close")


def test_a_body_has_a_length() -> None:
    wanted = read(head("POST http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 12"))
    assert wanted.body == 12
    assert b"Content-Length: 12\r\n" in wanted.head


@pytest.mark.parametrize(
    "lines",
    [
        # the line
        ["GET / HTTP/1.1", "Host: a.example"],
        ["OPTIONS * HTTP/1.1", "Host: a.example"],
        ["GET http://a.example../ HTTP/1.1", "Host: a.example.."],
        ["CONNECT a.example..:443 HTTP/1.1", "Host: a.example..:443"],
        ["GET  http://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/ HTTP/1.1 ", "Host: a.example"],
        [" GET http://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET\thttp://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/ HTTP/2.0", "Host: a.example"],
        ["GET http://a.example/ http/1.1", "Host: a.example"],
        ["GET http://a.example/"],
        ["G(T http://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/\nX: y HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/\x7f HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/\xe9 HTTP/1.1", "Host: a.example"],
        ["GET https://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET ftp://a.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/#part HTTP/1.1", "Host: a.example"],
        # the place
        ["GET http:///x HTTP/1.1", "Host: a.example"],
        ["GET http://me@a.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example:me@b.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example\\@b.example/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example:/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example:0/ HTTP/1.1", "Host: a.example:0"],
        ["GET http://a.example:080/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example:65536/ HTTP/1.1", "Host: a.example:65536"],
        ["GET http://a.example:+80/ HTTP/1.1", "Host: a.example"],
        ["GET http://a%2eexample/ HTTP/1.1", "Host: a%2eexample"],
        ["GET http://[fe80::1%25lo]/ HTTP/1.1", "Host: [fe80::1%25lo]"],
        ["GET http://[::1/ HTTP/1.1", "Host: [::1"],
        ["GET http://[::1]x/ HTTP/1.1", "Host: [::1]x"],
        ["GET http://" + "a" * 254 + "/ HTTP/1.1", "Host: " + "a" * 254],
        ["CONNECT a.example HTTP/1.1", "Host: a.example"],
        ["CONNECT http://a.example:443 HTTP/1.1", "Host: a.example"],
        ["CONNECT a.example:443/ HTTP/1.1", "Host: a.example"],
        ["CONNECT :443 HTTP/1.1", "Host: a.example"],
        # the host
        ["GET http://a.example/ HTTP/1.1"],
        ["GET http://a.example/ HTTP/1.1", "Host: b.example"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example:8080"],
        ["GET http://a.example:8080/ HTTP/1.1", "Host: a.example"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Host: a.example"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "hOST: b.example"],
        ["GET http://a.example/ HTTP/1.1", "Host:"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example, b.example"],
        ["CONNECT a.example:443 HTTP/1.1", "Host: b.example:443"],
        # headers
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "X-Folded: 1", " 2"],
        ["GET http://a.example/ HTTP/1.1", " Host: a.example"],
        ["GET http://a.example/ HTTP/1.1", "Host : a.example"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "no colon"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", ": no name"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "X: a\nContent-Length: 5"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "X: a\rb"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "X: a\0b"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Connection: close, Host"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Connection: content-length"],
        # the body
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Transfer-Encoding: chunked"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5", "Content-Length: 5"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 5, 5"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: +5"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: 0x5"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: \xb2"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length:"],
        ["GET http://a.example/ HTTP/1.1", "Host: a.example", "Content-Length: " + "9" * 19],
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(lines: list[str]) -> None:
    assert status(*lines) == 400


def test_some_refusals_have_a_status_of_their_own() -> None:
    assert status("TRACE http://a.example/ HTTP/1.1", "Host: a.example") == 405
    chunked = ["POST http://a.example/ HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"]
    assert status(*chunked) == 411
    assert status("GET http://a.example/ HTTP/1.1", "Host: a.example", *["X: y"] * MAX_HEADERS) == 431


def check(raw: bytes) -> None:
    """Refused, or exactly one request to exactly one host goes on."""
    try:
        wanted = read(raw)
    except Unfit:
        return
    assert wanted.host.isascii()
    assert wanted.host.isprintable()
    assert 0 < wanted.port < 65536
    if wanted.body is None:
        assert not wanted.head
        return
    lines = wanted.head[: -len(END)].split(b"\r\n")
    assert wanted.head.endswith(END)
    assert wanted.head.count(END) == 1
    assert not any(bad in line for line in lines for bad in (b"\r", b"\n", b"\0"))
    assert sum(line.lower().startswith(b"host:") for line in lines) == 1
    assert sum(line.lower().startswith(b"content-length:") for line in lines) <= 1
    assert not any(line.lower().startswith((b"transfer-encoding", b"proxy-")) for line in lines)


PIECES = st.sampled_from(
    [b"GET", b" ", b"http://", b"a.example", b"/", b" HTTP/1.1", b"\r\n", b"Host: ", b":", b"80", b"\n", b"\r", b"\t", b"\0",
     b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Connection: ", b"host", b"CONNECT ", b"@", b"[", b"]", b"\xff"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30))
def test_no_head_does_harm(pieces: list[bytes]) -> None:
    check(b"".join(pieces).replace(END, b"") + END)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=10)), max_size=12))
def test_nothing_is_smuggled_in_headers(pieces: list[bytes]) -> None:
    rest = b"".join(pieces)
    while END in rest:
        rest = rest.replace(END, b"")
    check(b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n" + rest.strip(b"\r\n") + END)
