"""Heads of requests: what is refused, and that nothing is read in two ways."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.http.heads import (
    MOST_HEAD,
    BadHead,
    WrongHost,
    checked,
    end_of_head,
    end_to_end,
    one_spelling,
    target_of,
)
from dayfly.egress.verdict import Allowed

API = Allowed("api.example.com", 443, 0, "tls")
END = b"\r\n\r\n"


def event(head: bytes) -> h11.Request:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
    assert end_of_head(head) == len(head)
    parser.receive_data(head)
    found = parser.next_event()
    assert isinstance(found, h11.Request)
    return found


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"GET / HTTP/1.1\nHost: a\r\n\r\n", "does not end with CR LF"),
        (b"GET / HTTP/1.1\r\nHost: a\n\n", "does not end with CR LF"),
        (b"GET / HTTP/1.1\r\nHost: a\r\rX: b\r\n\r\n", "does not end with CR LF"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "goes on in the next line"),
        (b"GET / HTTP/1.1\r\nX: a\r\n\tTransfer-Encoding: chunked\r\n\r\n", "goes on in the next line"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * MOST_HEAD, "more than"),
    ],
)
def test_lines_that_servers_read_differently_are_refused(head: bytes, why: str) -> None:
    with pytest.raises(BadHead, match=why):
        end_of_head(head)


def test_a_head_may_come_in_any_pieces() -> None:
    whole = b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
    assert [end_of_head(whole[:at]) for at in range(len(whole))] == [None] * len(whole)
    assert end_of_head(whole + b"body\n\r") == len(whole)


def looked_at(data: bytes, places: list[int]) -> object:
    seen = 0
    for place in places:
        try:
            found = end_of_head(data[:place], seen)
        except BadHead as error:
            return str(error)
        if found is not None:
            return found
        seen = place
    return None


@given(
    st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b"a", b": b", b" ", b"\t", b"\r\n\r\n"]), max_size=12).map(
        b"".join
    ),
    st.lists(st.integers(0, 40)),
)
def test_a_look_at_what_is_new_sees_what_a_look_at_everything_does(data: bytes, cuts: list[int]) -> None:
    pieces = sorted({min(one, len(data)) for one in cuts} | {len(data)})
    every = list(range(len(data) + 1))
    first = next((found for place in every if (found := looked_at(data, [place])) is not None), None)
    assert looked_at(data, every) == first
    if isinstance(first, int):
        assert looked_at(data, pieces) == first
    else:
        assert (looked_at(data, pieces) is None) == (first is None)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", "both"),
        ("CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443", "tunnel"),
        ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade", "WebSocket"),
        ("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c, WebSocket\r\nConnection: Upgrade", "WebSocket"),
        ("GET / HTTP/1.1\r\nHost: a" + "\r\nX: y" * 200, "headers"),
    ],
)
def test_what_is_not_served_is_refused(lines: str, why: str) -> None:
    with pytest.raises(BadHead, match=why):
        checked(event(lines.encode() + END))


@pytest.mark.parametrize(
    "lines",
    [
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 5",
        "GET / HTTP/1.1\r\nHost: a\r\n: 5",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b",
        "GET /a b HTTP/1.1\r\nHost: a",
        "GET / HTTP/2.0\r\nHost: a",
        "GET / HTTP/1.1",
    ],
)
def test_shapes_that_smuggle_are_no_request(lines: str) -> None:
    with pytest.raises((BadHead, h11.RemoteProtocolError)):
        checked(event(lines.encode("latin-1") + END))


@pytest.mark.parametrize(
    ("target", "host", "found"),
    [
        ("/v1/items?a=b", "api.example.com", ("/v1/items", "a=b")),
        ("/", "API.Example.com.", ("/", "")),
        ("/", "api.example.com:443", ("/", "")),
        ("https://api.example.com/x?y", "api.example.com", ("/x", "y")),
        ("https://api.example.com", "api.example.com", ("/", "")),
        ("https://api.example.com?q", "api.example.com", ("/", "q")),
        ("/a?b?c/../d", "api.example.com", ("/a", "b?c/../d")),
    ],
)
def test_the_target_of_a_request(target: str, host: str, found: tuple[str, str]) -> None:
    assert target_of(event(f"GET {target} HTTP/1.1\r\nHost: {host}".encode() + END), API) == found


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("/", "evil.example.net"),
        ("/", "api.example.com.evil.example.net"),
        ("/", "api.example.com:8443"),
        ("/", "api.example.com@evil.example.net"),
        ("/", "93.184.216.34"),
        ("/", "[::1]"),
        ("/", ""),
        ("https://evil.example.net/", "api.example.com"),
        ("https://api.example.com@evil.example.net/", "api.example.com"),
        ("https://api.example.com/", "evil.example.net"),
        ("http://api.example.com:80/", "api.example.com"),
    ],
)
def test_every_name_in_a_request_is_the_host_of_the_connection(target: str, host: str) -> None:
    with pytest.raises(WrongHost):
        target_of(event(f"GET {target} HTTP/1.1\r\nHost: {host}".encode() + END), API)


@pytest.mark.parametrize("target", ["*", "api.example.com/", "ftp://api.example.com/"])
def test_a_target_that_is_no_path_is_refused(target: str) -> None:
    request = event(f"OPTIONS {target} HTTP/1.1\r\nHost: api.example.com".encode() + END)
    with pytest.raises(BadHead):
        one_spelling(target_of(request, API)[0])


@given(st.from_regex(r"[!-~]{0,40}", fullmatch=True))
def test_a_query_is_kept_as_it_came_or_refused(query: str) -> None:
    request = event(f"GET /x?{query} HTTP/1.1\r\nHost: api.example.com".encode() + END)
    if "#" in query:
        with pytest.raises(BadHead):
            target_of(request, API)
    else:
        assert target_of(request, API) == ("/x", query)


def test_headers_of_one_hop_stay_here() -> None:
    found = end_to_end(
        [
            (b"Connection", b"close, X-Mine"), (b"X-Mine", b"1"), (b"X-Yours", b"2"), (b"TE", b"trailers"), (b"Host", b"a"),
            (b"Content-Length", b"1"), (b"Expect", b"100-continue"), (b"Proxy-Authorization", b"x"), (b"Accept", b"a"),
            (b"Accept", b"b"), (b"Content_Length", b"1"), (b"Transfer_Encoding", b"chunked"), (b"x_mine", b"1"),
        ]
    )  # fmt: skip
    assert found == (("x-yours", "2"), ("accept", "a"), ("accept", "b"), ("x_mine", "1"))
