"""The reader of ClientHellos alone, with whatever bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress import openings
from dayfly.egress.hello import Hello, NotTls
from tests.egress import client_hello as tls
from tests.egress.client_hello import hello


@given(st.binary(max_size=600))
def test_no_bytes_are_a_hello_by_chance(data: bytes) -> None:
    one = Hello()
    try:
        one.feed(data)
    except NotTls:
        return
    assert not one.whole


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a name that is not ASCII
@given(st.integers(0, 400), st.integers(1, 255), st.integers(1, 700))
def test_a_hello_with_one_byte_changed_names_the_same_or_is_seen_to_name_another(at: int, flip: int, size: int) -> None:
    """It never raises anything else, and a name is told only with what OpenSSL has read whole."""
    said = bytearray(hello(b"api.example.com", random=bytes(32)).records(size))
    said[at % len(said)] ^= flip
    one = Hello()
    try:
        one.feed(bytes(said))
    except NotTls:
        return
    if one.whole and one.name not in ("api.example.com", None):
        assert sum(a != b for a, b in zip(one.name, "api.example.com", strict=True)) == 1
    assert one.hides_the_name in (True, False)


@given(
    st.lists(st.tuples(st.integers(60, 60000), st.binary(max_size=50)), max_size=8, unique_by=lambda one: one[0]),
    st.integers(1, 99),
)
def test_an_encrypted_hello_is_seen_among_any_extensions(others: list[tuple[int, bytes]], size: int) -> None:
    others = [one for one in others if one[0] not in (tls.ECH, 0xFF01, 13172)]
    for more, expected in (([], False), ([(tls.ECH, b"x")], True)):
        one = Hello()
        one.feed(hello(b"a.example.com", more=[*others, *more]).records(size))
        assert (one.name, one.hides_the_name) == ("a.example.com", expected)


def test_every_protocol_of_a_rule_has_an_opening() -> None:
    assert set(openings._BY_PROTOCOL) == {"tls", "http", "tcp", "postgres"}
