"""What one connection has just been told by the index: pip asks for a page, then for files that are on it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["Kept"]

MOST = 16
"""Pages and documents."""

MOST_BYTES = 8 * 1024 * 1024
"""Of what they were made of. One sandbox has up to 64 connections."""

T = TypeVar("T")


class Kept:
    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str], tuple[object, int]] = OrderedDict()

    def get(self, key: tuple[str, str], kind: type[T]) -> T | None:
        found, _ = self._found.get(key, (None, 0))
        return found if isinstance(found, kind) else None

    def put(self, key: tuple[str, str], value: object, size: int) -> None:
        """The oldest go where there is no room."""
        if size > MOST_BYTES:
            return
        self._found[key] = value, size
        while len(self._found) > MOST or sum(one for _, one in self._found.values()) > MOST_BYTES:
            self._found.popitem(last=False)
