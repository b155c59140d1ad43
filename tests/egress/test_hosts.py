"""Every spelling of a host has one canonical form, or is refused; nothing else comes of any text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dayfly.hosts import LONGEST_LABEL, LONGEST_NAME, BadHost, IsAddress, canonical
from tests.egress import vectors


@pytest.mark.parametrize("spelling", vectors.SAME, ids=ascii)
def test_a_spelling_of_the_allowed_name_is_that_name(spelling: str) -> None:
    assert canonical(spelling) == vectors.ALLOWED


@pytest.mark.parametrize(("spelling", "name"), vectors.SPELT.items(), ids=ascii)
def test_a_name_has_one_form(spelling: str, name: str) -> None:
    assert canonical(spelling) == name


@pytest.mark.parametrize("spelling", vectors.OTHERS, ids=ascii)
def test_a_name_that_looks_alike_stays_another(spelling: str) -> None:
    assert canonical(spelling) != vectors.ALLOWED


@pytest.mark.parametrize("spelling", vectors.ADDRESSES, ids=ascii)
def test_an_address_is_no_name_however_it_is_spelt(spelling: str) -> None:
    with pytest.raises(IsAddress):
        canonical(spelling)


@pytest.mark.parametrize("spelling", vectors.MALFORMED, ids=lambda one: ascii(one[:40]))
def test_what_is_malformed_is_refused_and_not_repaired(spelling: str) -> None:
    with pytest.raises(BadHost) as caught:
        canonical(spelling)
    assert not isinstance(caught.value, IsAddress)


@pytest.mark.parametrize("value", [None, 5, b"allowed.example", ["allowed.example"]])
def test_what_is_no_text_is_no_host(value: object) -> None:
    with pytest.raises(BadHost, match="not text"):
        canonical(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "phrase"),
    [
        ("", "is empty"),
        ("a..b", "has an empty label"),
        ("a b", "has a space or a control character"),
        ("a@b", "has a user before the name"),
        ("http://a/", "is a URL or a part of one"),
        ("a:80", "has a port behind the name"),
        ("a%20", "has a percent sign"),
        ("::1", "is an IPv6 address"),
        ("1.2.3.4", "is an IP address"),
        ("a" * 64, "has a label longer than 63 characters"),
        ("ü" * 62, "has a label that IDNA 2008 does not allow"),
        ("a." * 200, "is longer than 253 characters"),
        ("☃", "has a label that IDNA 2008 does not allow"),
        ("a\uff01", "has a character that no host name has"),
    ],
)
def test_it_says_what_is_wrong(host: str, phrase: str) -> None:
    with pytest.raises(BadHost, match=f"^{phrase}"):
        canonical(host)


def test_the_longest_name_is_a_name_with_its_dot_too() -> None:
    assert len(vectors.LONGEST) == LONGEST_NAME
    assert canonical(vectors.LONGEST) == canonical(vectors.LONGEST + ".") == vectors.LONGEST


SPELLINGS = st.sampled_from([*vectors.SAME, *vectors.SPELT, *vectors.OTHERS, *vectors.ADDRESSES, *vectors.MALFORMED])
PIECES = st.sampled_from(
    [
        *"aA0.-_:@%/[]\0\r\n ",
        "xn--",
        "0x",
        "allowed",
        "example",
        "\u00ad",
        "\u200d",
        "。",
        "ü",
        "ß",
        "İ",
        "ﬃ",
        "٠",
        "\ud800",
    ]
)
HOSTILE = st.text(max_size=80) | st.lists(PIECES, max_size=12).map("".join) | SPELLINGS


@given(HOSTILE)
@example("xn--" + "a" * 59)
@example("xn--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-99999999")
@example("\u1e9e.example")
def test_a_canonical_name_is_its_own_canonical_form_and_else_there_is_only_bad_host(text: str) -> None:
    try:
        name = canonical(text)
    except BadHost:
        return
    assert canonical(name) == canonical(name + ".") == canonical(name.upper()) == name
    assert name.isascii()
    assert name == name.lower()
    labels = name.split(".")
    assert len(name) <= LONGEST_NAME
    assert all(0 < len(label) <= LONGEST_LABEL for label in labels)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert not any(label.startswith("-") or label.endswith("-") for label in labels)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(["d", "o", "x", "X"]), min_size=4, max_size=4),
    st.integers(1, 4),
)
def test_no_number_passes_as_a_name(value: int, bases: list[str], parts: int) -> None:
    octets = [value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255][: parts - 1]
    rest = value & (2 ** (8 * (5 - parts)) - 1)
    kinds = {"d": "{}", "o": "0{:o}", "x": "0x{:x}", "X": "0X{:X}"}
    spelling = ".".join(kinds[base].format(part) for base, part in zip(bases, [*octets, rest], strict=False))
    for one in (spelling, spelling + ".", f"www.{spelling}"):
        with pytest.raises(IsAddress):
            canonical(one)


@given(st.ip_addresses())
def test_no_address_passes_as_a_name(address: object) -> None:
    for spelling in (str(address), f"[{address}]"):
        with pytest.raises(IsAddress):
            canonical(spelling)


def test_plain_names_need_no_tables() -> None:
    program = (
        "import sys; from dayfly.hosts import canonical; canonical('API.example.'); assert 'idna' not in sys.modules;"
        "canonical('xn--bcher-kva.example'); assert 'idna' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
