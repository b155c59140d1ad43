"""A secret that a server sends back is taken out, however its bytes are cut and spelled, and nothing else is changed."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dayfly.egress.services.redaction import Cleaned, Spellings, Stream
from tests.secrets.canary import CANARY

MARKS = "sk\"\\/<&>'+=%ä ~(1)"
INSTEAD = b"*redacted*"

SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=8, max_size=40) | st.text(
    st.sampled_from("ab*"), min_size=8, max_size=12
)


def in_pieces(spellings: Spellings, data: bytes, cuts: list[int]) -> bytes:
    stream, places = Stream(spellings), sorted({min(one, len(data)) for one in cuts} | {0, len(data)})
    pieces = [stream.feed(data[one:other]) for one, other in pairwise(places)]
    return b"".join(pieces) + stream.finish()


@given(SECRETS, st.lists(st.binary(max_size=30) | st.just(b""), min_size=2, max_size=6), st.lists(st.integers(0, 400)))
def test_the_value_never_comes_out_however_it_is_cut(secret: str, between: list[bytes], cuts: list[int]) -> None:
    data = secret.encode().join(between)
    found = in_pieces(Spellings(secret), data, cuts)
    assert secret.encode() not in found
    assert found == Spellings(secret).cleaned(data)


@given(SECRETS, st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_everything_else_is_unchanged(secret: str, data: bytes, cuts: list[int]) -> None:
    spellings = Spellings(secret)
    assume(spellings.cleaned(data) == data)
    assert in_pieces(spellings, data, cuts) == data


@given(
    st.text(st.sampled_from("ab"), min_size=8, max_size=9),
    st.binary(max_size=60).map(lambda data: bytes(b"ab"[one % 2] for one in data)),
    st.lists(st.integers(0, 60)),
)
def test_values_that_repeat_themselves_are_found_too(secret: str, data: bytes, cuts: list[int]) -> None:
    found = in_pieces(Spellings(secret), data + secret.encode() + data, cuts)
    assert secret.encode() not in found
    assert INSTEAD in found


def spelled(value: str) -> dict[str, bytes]:
    raw = value.encode()
    return {
        "as it is": raw,
        "quote": quote(value).encode(),
        "quote all": quote(value, safe="").encode(),
        "quote, one small": quote(value, safe="").replace("%2F", "%2f").encode(),
        "quote, one left": quote(value, safe="").replace("%2B", "+").encode(),
        "quote twice": quote(quote(value, safe=""), safe="").encode(),
        "json twice": json.dumps(json.dumps(value))[3:-3].encode(),
        "json of quote": json.dumps(quote(value))[1:-1].encode(),
        "quote_plus": quote_plus(value).encode(),
        "json": json.dumps(value)[1:-1].encode(),
        "json, as it is": json.dumps(value, ensure_ascii=False)[1:-1].encode(),
        "json, slashes": json.dumps(value)[1:-1].replace("/", "\\/").encode(),
        "json in a page": json.dumps(value)[1:-1]
        .replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("'", "\\u0027")
        .encode(),
        "html": html.escape(value).encode(),
        "base64": base64.b64encode(raw),
        "base64 for URLs": base64.urlsafe_b64encode(raw).rstrip(b"="),
        "hex": raw.hex().encode(),
    }


@pytest.mark.parametrize("value", [CANARY, MARKS, "plain-token-0123"])
@pytest.mark.parametrize("form", spelled(CANARY))
def test_the_spellings_of_servers_are_found_wherever_they_are_cut(value: str, form: str) -> None:
    text, spellings = spelled(value)[form], Spellings(value)
    data = b'{"a": "' + text + b'", "b": 1}'
    expected = spellings.cleaned(data)
    assert text not in expected
    assert expected.startswith(b'{"a": "')
    assert expected.endswith(b'", "b": 1}')
    for cut in range(len(data)):
        assert in_pieces(spellings, data, [cut]) == expected
    assert in_pieces(spellings, data, list(range(len(data)))) == expected


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"abc", b"user:"])
@pytest.mark.parametrize("after", [b"", b"a", b"ab", b"abc"])
def test_base64_of_something_longer_is_found(before: bytes, after: bytes) -> None:
    text = base64.b64encode(before + CANARY.encode() + after)
    found = Spellings(CANARY).cleaned(text)
    assert b"redacted" in found
    longest = max((part for part in found.split(INSTEAD)), key=len)
    assert len(longest) <= 10  # the neighbours, and a letter of each that is theirs too


@pytest.mark.parametrize("value", ["redacted", "*redacted*", "********", "redactedredacted", "*#~|^!_-.redacted"])
def test_what_is_put_in_its_place_is_none_of_it(value: str) -> None:
    found = in_pieces(Spellings(value), b"x" + value.encode() * 3 + b"y", [5, 9, 11])
    assert value.encode() not in found
    assert (found[:1], found[-1:]) == (b"x", b"y")


def test_what_is_certain_goes_on_at_once() -> None:
    """As events that a server streams do."""
    stream = Stream(Spellings(CANARY))
    assert stream.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert stream.feed(b"data: " + CANARY[:5].encode() + b"\n") == b"data: " + CANARY[:5].encode() + b"\n"
    assert stream.feed(b"a" * 10_000).startswith(b"a" * 9_000)


@given(
    st.lists(
        st.sampled_from([CANARY[:9], CANARY[1:], "x" * 9, "x" * (len(CANARY) - 1), "\n", "."]), min_size=1, max_size=40
    ),
    st.lists(st.integers(0, 400)),
)
def test_nobody_sees_by_what_waits_how_the_value_begins(parts: list[str], cuts: list[int]) -> None:
    """A beginning of it is passed as any other text is: in the same pieces."""
    guess, other = (
        "".join(parts),
        "".join(parts).replace(CANARY[:9], "y" * 9).replace(CANARY[1:], "y" * (len(CANARY) - 1)),
    )
    assume(CANARY not in guess)
    streams = [Stream(Spellings(CANARY)) for _ in "ab"]
    places = sorted({min(one, len(guess)) for one in cuts} | {0, len(guess)})
    for one, another in pairwise(places):
        pieces = [stream.feed(text.encode()[one:another]) for stream, text in zip(streams, (guess, other), strict=True)]
        assert len(pieces[0]) == len(pieces[1])


def test_a_short_value_cannot_be_told_from_other_text() -> None:
    assert not Spellings("1234567").usable
    assert not Spellings("a-long-user:pw", "pw").usable
    assert not Spellings("").usable
    assert Spellings("12345678").usable


def test_a_value_of_nothing_but_marks_would_take_too_long() -> None:
    assert Spellings("/" * 128).usable
    assert not Spellings("/" * 129).usable
    assert Spellings("a-token_0." * 800).usable


def test_the_value_is_in_no_text_of_it() -> None:
    assert CANARY not in repr(Spellings(CANARY)) + repr(Stream(Spellings(CANARY)))


class Pieces:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def test_a_body_has_no_empty_pieces_and_ends_once() -> None:
    body = Cleaned(Pieces(b"a", CANARY[:7].encode(), CANARY[7:].encode(), CANARY[:3].encode()), Spellings(CANARY))
    found = [piece async for piece in body]
    assert all(found)
    assert b"".join(found) == b"a" + INSTEAD + CANARY[:3].encode()
    assert [piece async for piece in body] == []


async def test_a_body_that_nobody_began_is_closed_too() -> None:
    pieces = Pieces(b"a")
    body = Cleaned(pieces, Spellings(CANARY))
    await body.aclose()
    assert pieces.closed
    assert [piece async for piece in body] == []
