"""A request with its secret: in its one place, once, and nothing of the code's own beside it."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dayfly.egress.http.messages import Headers, Request
from dayfly.egress.services.credentials import fits, with_secret
from dayfly.network import Inject

OTHERS = (("accept", "*/*"), ("x-other", "1"), ("accept", "text/html"))


def sent(value: str, query: str = "", headers: Headers = OTHERS, **inject: Any) -> Request:
    return with_secret(Request("GET", "/v1", query, headers), Inject(secret="crm", **inject), value)


def test_a_bearer_token_stands_alone() -> None:
    mine = (("authorization", "Bearer mine"), ("Authorization", "Basic bWluZQ=="), ("AUTHORIZATION", "x"))
    request = sent("tok", headers=(*mine, *OTHERS))
    assert request.headers == (*OTHERS, ("authorization", "Bearer tok"))


@pytest.mark.parametrize("query", ["access_token=mine", "ACCESS%5fTOKEN=mine", "access-token=mine&access_token[]=x"])
def test_a_bearer_token_of_the_code_is_not_in_the_query_either(query: str) -> None:
    assert sent("tok", f"a=1&{query}").query == "a=1"


def test_basic_is_what_rfc_7617_says() -> None:
    request = sent("Aladdin:open sesame", into="basic", headers=(("authorization", "Bearer mine"),))
    assert request.headers == (("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),)
    text = sent("ü:ö", into="basic").header("authorization") or ""
    assert base64.b64decode(text.removeprefix("Basic ")).decode() == "ü:ö"


@pytest.mark.parametrize("mine", ["x-api-key", "X-API-KEY", "x_api_key", "X_Api-Key"])
def test_a_header_of_that_name_is_the_secrets_alone(mine: str) -> None:
    request = sent("tok", into="header", name="X-Api-Key", headers=((mine, "mine"), *OTHERS))
    assert request.headers == (*OTHERS, ("x-api-key", "tok"))


@pytest.mark.parametrize(
    "mine",
    [
        "key=mine",
        "KEY=mine",
        "k%65y=mine",
        "%6B%45y=mine",
        "key",
        "key=",
        "+key=mine",
        "key+=mine",
        "key%00=mine",
        "key[]=mine",
        "key[0]=mine",
        "key%5B%5D=mine",
        "key=mine&key=other",
    ],
)
@pytest.mark.parametrize("form", ["{}", "a=1&{}", "{}&a=1", "a=1&{}&b=2", "a=1;{}", "{};a=1"])
def test_a_parameter_of_that_name_is_the_secrets_alone(mine: str, form: str) -> None:
    query = sent("tok", form.format(mine), into="query", name="key").query
    assert query.endswith("key=tok")
    assert "mine" not in query
    assert ("a=1" in query) is ("a=1" in form)
    assert ("b=2" in query) is ("b=2" in form)


@pytest.mark.parametrize(
    "query", ["", "a=1", "a=%zz&b", "a;b=2;c", "&&a=1&", "keys=1", "a=key", "a=b=c&%6b", "[key]=1", "=x"]
)
def test_all_other_parameters_stay_as_they_were_written(query: str) -> None:
    assert sent("tok", query, into="query", name="key").query == (f"{query}&key=tok" if query else "key=tok")


@given(st.text(min_size=1).filter(lambda one: one.isprintable()), st.text(st.sampled_from("abkeyKEY=&;%+[].-_01")))
def test_a_server_finds_the_value_once_whatever_it_and_the_query_are(value: str, query: str) -> None:
    assume(fits(Inject(secret="crm", into="query", name="key"), value))
    found = sent(value, query, into="query", name="key").query
    for separator in "&;":
        pairs = parse_qsl(found.rpartition("&key=")[0] if "&key=" in found else "", True, separator=separator)
        assert not [one for one, _ in pairs if one.lower() == "key"]
    assert found.endswith(f"key={quote(value, safe='')}")
    assert ("key", value) in parse_qsl(found)


@pytest.mark.parametrize(
    ("into", "value"),
    [
        ("bearer", ""),
        ("bearer", "a\r\nX: 1"),
        ("bearer", "a\0"),
        ("bearer", " a"),
        ("header", "a\n"),
        ("header", "ä"),
        ("basic", "user"),
        ("basic", "user:a\n"),
        ("query", ""),
        ("query", "a\r\n"),
    ],
)
def test_what_does_not_fit_is_not_sent(into: str, value: str) -> None:
    name = "x" if into in ("header", "query") else None
    assert not fits(Inject.model_validate({"secret": "crm", "into": into, "name": name}), value)
