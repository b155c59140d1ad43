"""The source of cells, for tracebacks and ``inspect``, without importing ``linecache`` before somebody wants it (6 ms)."""

from __future__ import annotations

import sys

MAX_SOURCES = 2000
"""Cells whose source is kept; a function of an older one shows no source lines."""

_HINTS = ("inspect", "linecache", "traceback", "getsource", "doctest")
"""Words in a cell that may want its own source while it runs."""

_waiting: dict[str, str] = {}
_names: list[str] = []


def remember(name: str, source: str) -> None:
    """``source`` is the file ``name`` from now on."""
    _waiting[name] = source
    _names.append(name)
    if "linecache" in sys.modules or any(hint in source for hint in _HINTS):
        expose()
    if len(_names) > MAX_SOURCES:
        _forget(_names.pop(0))


def expose() -> None:
    """Before a traceback is made."""
    import linecache

    for name, source in _waiting.items():
        linecache.cache[name] = (len(source), None, [line + "\n" for line in source.split("\n")], name)
    _waiting.clear()


def _forget(name: str) -> None:
    if name not in _names:  # else the same cell was remembered twice
        _waiting.pop(name, None)
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache.pop(name, None)
