"""Where the client sends what: addresses, and who gets the key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.client.remote.address import Address, find_address, in_path
from dayfly.errors import InputError

HERE = Address("http://127.0.0.1:8700", "dfk_a_b")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAYFLY_URL", raising=False)
    monkeypatch.delenv("DAYFLY_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://127.0.0.1:8700", "http://127.0.0.1:8700"),
        ("https://host/", "https://host"),
        ("https://host/a/base/", "https://host/a/base"),
        ("http://[::1]:8700", "http://[::1]:8700"),
    ],
)
def test_an_address_may_have_a_base_path(given: str, kept: str) -> None:
    found = find_address(given, "dfk_a_b")
    assert found == Address(kept, "dfk_a_b")
    assert found.to("/v1/sandboxes") == f"{kept}/v1/sandboxes"


@pytest.mark.parametrize(
    "bad",
    [
        "", "host", "host:8700", "ftp://host", "http://", "http:///path", "http://host:0", "http://host:99999",
        "http://[::1", "http://host/?a=b", "http://host/#a", "http://ho st", "http://host\n", "http://höst", 7, b"http://h",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_an_example(bad: str) -> None:
    with pytest.raises(InputError, match=r"such as http://|no user, query or fragment"):
        find_address(bad, "dfk_a_b")


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    for bad in ("https://me:hunter2@host", "nonsense://me:hunter2@host"):
        with pytest.raises(InputError) as caught:
            find_address(bad, "dfk_a_b")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("bad", ["", "a b", "a\nb", "ä", 7])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(InputError) as caught:
        find_address("http://h", bad)
    assert "dayfly keys create" in (caught.value.remedy or "")
    assert not bad or repr(bad) not in str(caught.value)


def test_the_environment_says_what_the_caller_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_address(None, None) is None
    monkeypatch.setenv("DAYFLY_URL", "http://one")
    with pytest.raises(InputError, match="wants a key"):
        find_address(None, None)
    monkeypatch.setenv("DAYFLY_API_KEY", "dfk_one")
    assert find_address(None, None) == Address("http://one", "dfk_one")
    assert find_address("http://two", "dfk_two") == Address("http://two", "dfk_two")
    assert find_address("http://one/", None) == Address("http://one", "dfk_one")
    with pytest.raises(InputError, match="wants a key"):  # the key of one server is not shown to another
        find_address("http://two", None)
    monkeypatch.delenv("DAYFLY_URL")
    assert find_address("http://two", None) == Address("http://two", "dfk_one")


def test_a_key_without_an_address_is_a_mistake() -> None:
    with pytest.raises(InputError, match="DAYFLY_URL"):
        find_address(None, "dfk_a_b")


def test_the_key_is_in_no_representation() -> None:
    assert "dfk_a_b" not in repr(HERE)


@given(st.binary(min_size=1))
def test_any_bytes_are_one_segment_or_one_value(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for encoded in (
        in_path(text) if text not in (".", "..") else "x",
        HERE.to("", {"path": text}).partition("?path=")[2],
    ):
        assert encoded.isascii()
        assert not set(encoded) & set(" ?#&+=\n\\")


@pytest.mark.parametrize("bad", ["", ".", "..", 7])
def test_what_would_be_another_path_is_refused(bad: str) -> None:
    with pytest.raises(InputError):
        in_path(bad)


def test_a_query_leaves_out_what_is_not_said() -> None:
    assert HERE.to("/x", {"a": None, "b": True, "c": 7, "d": "\udcff /"}).endswith("/x?b=true&c=7&d=%FF%20/")
