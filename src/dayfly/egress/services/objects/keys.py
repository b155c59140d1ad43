"""One spelling for keys. A store, and whatever stands before it, is to find the same key in it that was judged: what some of them
would read in another way is refused, never repaired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, unquote_to_bytes

__all__ = ["LONGEST_KEY", "BadSpelling", "begins_with", "checked_key", "escaped", "unescaped"]

LONGEST_KEY = 1024
"""Bytes as UTF-8, as Amazon's S3 has it."""

_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOT_IN_A_KEY = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff\ufffe\uffff]")
_MOST_DECODINGS = 4


class BadSpelling(ValueError):
    """``str()`` says what is wrong, as a phrase whose subject is the key."""


def unescaped(text: str) -> str:
    """What is percent-encoded in a path, a query or a header, as text. Raises ``BadSpelling``."""
    if "+" in text:
        raise BadSpelling("has a '+', which is a plus to some and a space to others: write %2B or %20")
    if _PERCENT.search(text):
        raise BadSpelling("has a percent sign that begins no escape")
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeError:
        raise BadSpelling("is not UTF-8") from None


def escaped(text: str, keep: str = "") -> str:
    """The one spelling that is signed and sent. ``keep``: ``/`` in paths."""
    return quote(text, safe=f"-_.~{keep}")


def checked_key(key: str) -> str:
    """A key, or the prefix of some. Raises ``BadSpelling``."""
    if _NOT_IN_A_KEY.search(key):
        raise BadSpelling("has a backslash or a control character")
    if len(key.encode()) > LONGEST_KEY:
        raise BadSpelling(f"is longer than {LONGEST_KEY} bytes")
    for one in _readings(key):
        segments = one.split("/")
        if "" in segments[:-1] or any(segment in (".", "..") for segment in segments):
            raise BadSpelling("has an empty segment or one of dots")
        if _NOT_IN_A_KEY.search(one):
            raise BadSpelling("has an escaped backslash or control character")
    return key


def begins_with(key: str, prefix: str) -> bool:
    """However often somebody on the way takes escapes off."""
    return all(one.startswith(prefix) for one in _readings(key))


def _readings(key: str) -> Iterator[str]:
    """``key``, and what it becomes where it is unescaped again. Raises ``BadSpelling`` where that has no end."""
    for _ in range(_MOST_DECODINGS):
        yield key
        plain = unquote(key, errors="replace")
        if plain == key:
            return
        key = plain
    raise BadSpelling("is escaped too many times over")
