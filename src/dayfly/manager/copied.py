"""What the journal hears of one input or output: where, how much, and which keys as far as an entry has room."""

from __future__ import annotations

import hashlib
from typing import Any

from dayfly.network import Input, Output

__all__ = ["Tale", "printable"]

MAX_KEYS = 1024
"""Bytes of keys in one row of an entry, of which there are 16. Their digest stands for all of them."""

MAX_WORDS = 200
"""Characters of a place or a directory there."""


class Tale:
    """``add`` in any order; the digest is of the keys in order, each with a newline behind it."""

    def __init__(self, one: Input | Output) -> None:
        self._one = one
        self._size = 0
        self._keys: list[str] = []

    def add(self, key: str, size: int) -> None:
        self._keys.append(key)
        self._size += size

    @property
    def facts(self) -> dict[str, Any]:
        keys = sorted(self._keys)
        return {
            "place": printable(self._one.rule.objects.place),
            "endpoint": self._one.endpoint,
            "credentials": self._one.credentials,
            "directory": printable(self._one.directory),
            "count": len(keys),
            "bytes": self._size,
            "sha256": hashlib.sha256("".join(f"{key}\n" for key in keys).encode()).hexdigest(),
            "keys": _first(keys),
        }


def printable(text: str, most: int = MAX_WORDS) -> str:
    """Any text, in ASCII, and bounded after that."""
    return ascii(text)[1:-1][:most]


def _first(keys: list[str]) -> list[str]:
    found: list[str] = []
    room = MAX_KEYS
    for key in map(ascii, keys):
        room -= len(key)
        if room < 0:
            return [*found, "..."]
        found.append(key[1:-1])
    return found
