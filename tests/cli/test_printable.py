"""What a terminal or a reader could be fooled with never passes ``printable``."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.cli.printable import LineKeeper, printable

HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}
INVISIBLE = {
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
}
TRICKY = st.sampled_from(
    [*map(chr, sorted(INVISIBLE)[:60]), *"\x00\x07\x08\x1b\x7f\x80\x9b\x9d\u202e\u2028\r\n\t aé日👍👩#1", "\udcff"]
)
TEXTS = st.text() | st.text(TRICKY)


def is_seen(text: str, position: int) -> bool:
    """Whether the character may be shown: visible, or a joiner or selector with a visible neighbour to shape."""
    character = text[position]
    if character in "\n\t":
        return True
    if character in "\u200c\u200d\ufe0f":
        before = text[position - 1] if position else ""
        return before > "\x7f" or (character == "\ufe0f" and before != "" and before in "0123456789#*")
    return unicodedata.category(character) not in HARMFUL and ord(character) not in INVISIBLE


@given(TEXTS)
def test_nothing_that_a_terminal_obeys_or_nobody_sees_comes_out(text: str) -> None:
    shown = printable(text)
    assert all(is_seen(shown, position) for position in range(len(shown))), ascii(shown)
    shown.encode()  # no lone surrogate is left either


@given(TEXTS)
def test_what_is_printable_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown


@given(st.lists(TEXTS))
def test_a_stream_in_pieces_is_as_safe_as_a_whole_text(pieces: list[str]) -> None:
    keeper = LineKeeper()
    shown = "".join([*map(keeper.feed, pieces), keeper.finish()])
    assert "\r" not in shown
    assert "\x1b" not in shown
    assert shown.count("\n") == printable("".join(pieces)).count("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("hi\U000e0041\U000e0042", "hi\\U000e0041\\U000e0042"),
        ("pass\u200bword", "pass\\u200bword"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\x08b", "a\\x08b"),
        ("\udcff", "\\udcff"),
        ("a\u200db", "a\\u200db"),
        ("é\u200d\u200d\u200dé", "é\\u200d\\u200d\\u200dé"),
        ("👍\ufe0f\ufe0f\ufe0f", "👍\ufe0f\\ufe0f\\ufe0f"),
    ],
)
def test_tricks_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["plain\ttext\n", "Grüße, 日本語, Ελληνικά, עברית", "می‌خواهم", "👩‍🔬 ❤️ ❤️‍🔥 1️⃣ ✓", "█▓▒░ ⠀⣿ │└──", "e\u0301"]
)
def test_letters_of_every_script_and_emoji_stay(text: str) -> None:
    assert printable(text) == text
