"""What is known of a secret: hosts as in rules, an owner, and what a value may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from dayfly.errors import InputError, PolicyError
from dayfly.network import parse_network
from dayfly.secrets import LONGEST_VALUE, Entry, checked_value
from dayfly.secrets.value import unfit
from tests.secrets.canary import CANARY, seen_in, told


def test_hosts_have_one_spelling() -> None:
    entry = Entry(name="crm", hosts=("API.Example.com.", "*.Example.org", "api.example.com"))
    assert entry.hosts == ("api.example.com", "*.example.org")


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [
        ("api.example.com", True),
        ("a.example.org", True),
        ("*.example.org", True),
        ("example.com", False),
        ("*.example.com", False),
        ("a.api.example.com", False),
        ("example.org", False),
        ("a.b.example.org", False),
        ("*.a.example.org", False),
        ("api.example.com.evil.example", False),
        (None, False),
    ],
)
def test_all_that_a_rule_stands_for_is_among_its_hosts_or_it_is_not_for_the_rule(
    host: str | None, is_covered: bool
) -> None:
    assert Entry(name="crm", hosts=("api.example.com", "*.example.org")).covers(host) is is_covered


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "Crm"}, "not a secret's name"),
        ({"name": "../crm"}, "not a secret's name"),
        ({"name": ".crm"}, "not a secret's name"),
        ({"name": "a" * 65}, "not a secret's name"),
        ({"hosts": ["*"]}, "hosts"),
        ({"hosts": ["127.0.0.1"]}, "address"),
        ({"hosts": ["https://api.example.com"]}, "URL"),
        ({"hosts": [f"h{number}.example.com" for number in range(65)]}, "too many"),
        ({"tenant": ""}, "printable"),
        ({"tenant": "a\nb"}, "printable"),
        ({"conversation": "monday"}, "named by tenants"),
        ({"vaule": "x"}, "there is no key"),
    ],
)
def test_a_wrong_entry_is_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(PolicyError, match=why) as refused:
        Entry.model_validate({"name": "crm", "hosts": ["api.example.com"], **wrong})
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        ("\r\nX-Admin: 1", "control character"),
        ("\n", "control character"),
        ("\0", "control character"),
        ("\x7f", "control character"),
        ("\x85", "control character"),
        (" ", "blank"),
        ("\udc80", "UTF-8"),
        ("x" * LONGEST_VALUE, "longer than"),
        ("ä" * (LONGEST_VALUE // 2), "longer than"),
    ],
)
def test_what_can_be_no_value_is_refused_without_being_shown(tail: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        checked_value(SecretStr(CANARY + tail))
    assert not seen_in(told(refused.value))


def test_an_empty_value_is_none() -> None:
    with pytest.raises(InputError, match="is empty"):
        checked_value(SecretStr(""))


@given(st.text())
def test_a_value_that_is_taken_is_one_line(text: str) -> None:
    try:
        checked_value(SecretStr(text))
    except InputError:
        return
    assert len(text.splitlines()) == 1 or "\u2028" in text or "\u2029" in text
    assert not {"\r", "\n", "\0"} & set(text)


INTO = {"bearer": {}, "basic": {}, "header": {"name": "X-Key"}, "query": {"name": "key"}}


@pytest.mark.parametrize(
    ("into", "redact", "value", "fits"),
    [
        ("bearer", False, "abc", True),
        ("bearer", False, "x y", False),
        ("bearer", False, "ä", False),
        ("header", False, "Token abc", True),
        ("header", False, "ä", False),
        ("basic", False, "user:pässword", True),
        ("basic", False, "user", False),
        ("query", False, "a&b=ä c", True),
        ("bearer", True, "1234567", False),
        ("bearer", True, "12345678", True),
        ("bearer", True, "/" * 129, False),
        ("basic", True, "/" * 100 + ":" + "/" * 100, False),
        ("basic", True, "a-long-user:1234567", False),
        ("basic", True, "u:12345678", True),
    ],
)
def test_a_value_has_to_fit_what_a_rule_does_with_it(into: str, redact: bool, value: str, fits: bool) -> None:
    inject = {"secret": "crm", "into": into, "redact": redact, **INTO[into]}
    [rule] = parse_network([{"host": "api.example.com", "inject": inject}])
    why = unfit(rule, SecretStr(value))
    assert (why is None) is fits
    assert value not in (why or "")
