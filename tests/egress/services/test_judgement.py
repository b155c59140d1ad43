"""What a host rule says of a request: what it lists and nothing else, also where a server would read it another way."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.http.messages import Headers, Request
from dayfly.egress.services.judgement import is_below, judge
from dayfly.egress.verdict import CODES, Denied
from dayfly.network import Rule
from dayfly.urls import BadPath, canonical_path

HOST = "api.example.com"


def verdict(method: str, path: str, query: str = "", headers: Headers = (), **rule: Any) -> Denied | None:
    return judge(Rule(host=HOST, **rule), Request(method, path, query, headers), HOST, 443)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/", "/v1/items", "/v1/items/1;x=2", "/status", "/v1/a%20b", "/v1/100%25"])
def test_what_is_listed_may_be_asked(method: str, path: str) -> None:
    assert verdict(method, path, "a=1&b", methods=["GET", "HEAD"], paths=["/v1/*", "/status"]) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/items"),
        ("get", "/v1/items"),
        ("GET ", "/v1/items"),
        ("TRACE", "/v1/items"),
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v10"),
        ("GET", "/V1/items"),
        ("GET", "/status/"),
        ("GET", "/status/x"),
        ("GET", "/status;x"),
        ("GET", "/status%00"),
        ("GET", "/x/v1/items"),
        ("GET", "/v1/%252e%252e/admin"),
        ("GET", "/v1/%25252E%25252e/admin"),
        ("GET", "/v1/a%252f..%252fadmin"),
        ("GET", "/v1/a%255c..%255c..%255cadmin"),
        ("GET", "/v1/%252e%252e%253bx/admin"),
        ("GET", "/v1/..%253Bx/admin"),
        ("GET", "/v1/%252e%252e%2520/admin"),
        ("GET", "/v1/" + "%25" + "25" * 20 + "2e"),
    ],
)
def test_what_is_not_listed_is_denied(method: str, path: str) -> None:
    found = verdict(method, path, methods=["GET", "HEAD"], paths=["/v1/*", "/status"])
    assert found is not None
    assert (found.host, found.port, found.code) == (HOST, 443, "request_not_listed")


def test_a_denial_says_what_is_allowed_what_was_asked_and_what_to_do() -> None:
    found = verdict("DELETE", "/v1/items", methods=["GET", "HEAD"], paths=["/v1/*", "/status"])
    assert found is not None
    assert found.reason == (
        "The network policy allows GET, HEAD at /v1/*, /status on api.example.com, and this was DELETE /v1/items."
    )
    assert found.remedy == "Use GET, HEAD at /v1/*, /status, or ask for a rule with methods = [..., 'DELETE']."
    assert found.code in CODES


@pytest.mark.parametrize("text", ["\r\nX: 1", "\x1b[2J", "é\u202e", "x" * 10_000])
def test_hostile_text_is_in_no_denial_as_it_came(text: str) -> None:
    found = verdict("A" + text, "/" + text, paths=["/v1/*"], methods=["GET"])
    assert found is not None
    told = found.reason + found.remedy
    assert told.isascii()
    assert told.isprintable()
    assert len(told) < 1000


def test_a_long_list_is_cut() -> None:
    found = verdict("GET", "/x", paths=[f"/p{number}" for number in range(200)])
    assert found is not None
    assert "/p4 and 195 more" in found.reason


@pytest.mark.parametrize(
    "header",
    ["x-http-method-override", "x-http-method", "x-method-override", "X_HTTP_Method_Override", "x-original-method"],
)
def test_no_header_may_name_another_method(header: str) -> None:
    headers = ((header, "DELETE"),)
    assert verdict("POST", "/v1/x", headers=headers, methods=["POST"]) is not None
    assert verdict("POST", "/v1/x", headers=headers, paths=["/v1/*"]) is None  # the control: any method is allowed


@pytest.mark.parametrize(
    "header", ["x-original-url", "x-rewrite-url", "x_original_url", "x-forwarded-prefix", "Destination"]
)
def test_no_header_may_name_another_path(header: str) -> None:
    headers = ((header, "/admin"),)
    assert verdict("GET", "/v1/x", headers=headers, paths=["/v1/*"]) is not None
    assert verdict("GET", "/v1/x", headers=headers, methods=["GET"]) is None


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-host", "x_forwarded_host", "x-host"])
def test_no_header_may_name_another_host(header: str) -> None:
    found = verdict("GET", "/v1/x", headers=((header, "evil.example"),), methods=["GET"])
    assert found is not None
    assert found.remedy == "Leave it out."


@pytest.mark.parametrize("query", ["_method=DELETE", "a=1&_METHOD=DELETE", "a;%5fmethod=x", "a&+_method"])
def test_no_parameter_may_name_another_method(query: str) -> None:
    assert verdict("POST", "/v1/x", query, methods=["POST"]) is not None
    assert verdict("POST", "/v1/x", query, paths=["/v1/*"]) is None


def test_a_request_that_comes_back_as_it_is_would_bring_the_secret() -> None:
    assert verdict("TRACE", "/", inject={"secret": "crm"}) is not None
    assert verdict("trace", "/", inject={"secret": "crm"}) is not None
    assert verdict("TRACK", "/", inject={"secret": "crm"}) is not None
    assert verdict("CONNECT", "/", inject={"secret": "crm"}) is not None
    assert verdict("GET", "/", inject={"secret": "crm"}) is None


SEGMENT = st.text(st.sampled_from("ab.%/;2e5cfC\\0"), max_size=12)


@given(st.lists(SEGMENT, max_size=5))
def test_whatever_is_asked_lies_below_what_is_listed_however_often_it_is_unescaped(segments: list[str]) -> None:
    try:
        path = canonical_path("/" + "/".join(segments))
    except BadPath:
        return
    if verdict("GET", path, paths=["/a/*"]) is not None:
        return
    while True:
        assert path.startswith("/a/")
        assert not {"..", "."} & {one.split(";")[0] for one in path.replace("\\", "/").split("/")}
        if path == unquote(path):
            return
        path = unquote(path)


@given(st.text(st.sampled_from("/ab"), min_size=1), st.text(st.sampled_from("/ab")))
def test_a_pattern_stands_for_all_that_begins_with_it_and_a_slash(base: str, path: str) -> None:
    assert is_below(base + "/*", path) is path.startswith(base + "/")
    assert is_below(base, path) is (base == path)
