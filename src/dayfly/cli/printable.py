"""Text that came out of a sandbox, made safe to show to a person. The one place where that is done.

A terminal obeys what it is shown: escape sequences retitle windows, write the clipboard and repaint what was there; bidirectional
controls and invisible characters make text read differently from what it is, for people and for models alike. All of them are
shown as escapes here, such as ``\\x1b``. Letters of every script, and emoji, stay as they are.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["LineKeeper", "printable"]

# Unicode's Default_Ignorable_Code_Point: drawn as nothing at all, whatever their category. (Braille's blank is drawn: plots use it.)
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, formats, lone surrogates, line and paragraph separators
_SUSPECT = re.compile(rf"[^\n\t -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u05ff\u3001-\u3163\u4e00-\ud7a3]|[{_INVISIBLE}]")
_UNSEEN = re.compile(f"[{_INVISIBLE}]")
_RETURN = re.compile(r"\r\n?")

# Joiners and the emoji selector shape the characters around them; alone, or in a row, they only hide something.
_SELECTOR = "\ufe0f"
_SHAPING = {"\u200c", "\u200d", _SELECTOR}


def printable(text: str) -> str:
    """``text`` without anything that a terminal would obey or that cannot be seen; lines and tabs stay.

    A carriage return becomes a new line, so that nothing can be written over.
    """
    lines = _RETURN.sub("\n", text)
    return _SUSPECT.sub(_shown, lines)


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHAPING and _shapes(match.string, match.start()):
        return character
    if unicodedata.category(character) in _HARMFUL or _UNSEEN.match(character):
        return _escape(character)
    return character


def _shapes(text: str, position: int) -> bool:
    """Whether a shaping character has visible neighbours to shape: a joiner between two characters that are not ASCII, the
    selector after one (or after a keycap's digit), and a joiner after a selector."""
    character, before, after = text[position], text[position - 1 : position], text[position + 1 : position + 2]
    if character == _SELECTOR:
        return _is_visible(before) or (before != "" and before in "0123456789#*" and after == "\u20e3")
    if before == _SELECTOR:
        return position > 1 and _is_visible(text[position - 2]) and _is_visible(after)
    return _is_visible(before) and _is_visible(after)


def _is_visible(character: str) -> bool:
    """Not ASCII, and drawn."""
    return character > "\x7f" and not _UNSEEN.match(character) and unicodedata.category(character) not in _HARMFUL


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class LineKeeper:
    """``printable`` for a stream in pieces: a ``\\r\\n`` that is cut in two stays one line."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return printable(text.removesuffix(self._held) if self._held else text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return printable(held)
