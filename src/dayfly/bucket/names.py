"""Keys as files, and files as keys. Nothing is repaired: what cannot be both is refused, by its name."""

from __future__ import annotations

from collections.abc import Iterable

from dayfly.egress.services.objects.keys import BadSpelling, begins_with, checked_key

__all__ = ["BadName", "file_below", "key_for", "refuse_clashes", "shown"]

LONGEST_NAME = 255
"""Bytes of one name: Linux's NAME_MAX."""

_SHOWN = 200


class BadName(ValueError):
    """``str()`` is a phrase whose subject is the key, or the file."""


def shown(name: str) -> str:
    """A name from outside, for a message: bounded, and in ASCII."""
    return ascii(name[:_SHOWN]) + ("..." if len(name) > _SHOWN else "")


def file_below(prefix: str, key: str) -> str:
    """Which file below the directory a key becomes; ``""`` for the prefix itself. One that ends with a slash stands for a directory.
    Raises ``BadName``."""
    rest = _below(prefix, key)
    for name in rest.removesuffix("/").split("/"):
        if len(name.encode()) > LONGEST_NAME:
            raise BadName(f"has a name in it that is longer than the {LONGEST_NAME} bytes of a file's")
    return rest


def key_for(prefix: str, file: str) -> str:
    """Which key a file becomes. ``file``: its path below the directory, as the sandbox says it. Raises ``BadName``."""
    if not file or file.startswith("/") or file.endswith("/"):
        raise BadName("has a name that is no file's")
    try:
        file.encode()
    except UnicodeEncodeError:
        raise BadName("has a name that is not UTF-8") from None
    key = prefix + file
    _below(prefix, key)
    return key


def _below(prefix: str, key: str) -> str:
    try:
        checked_key(key)
        inside = begins_with(key, prefix)
    except BadSpelling as error:
        raise BadName(str(error)) from None
    if not inside:
        raise BadName("is not below the prefix")
    return key[len(prefix) :]


def refuse_clashes(files: Iterable[str]) -> None:
    """Files, and directories with a slash behind them: none twice, and none that is both. Raises ``BadName``, whose first argument is
    the one that it is about, and the second the phrase."""
    seen: set[str] = set()
    holding: set[str] = set()
    for file in files:
        if file in seen:
            raise BadName(file, "is listed twice")
        seen.add(file)
        holding.update(_holders(file))
    for file in seen:
        if file in holding:
            raise BadName(file, "is an object, and others are below it: it cannot be a file and a directory")


def _holders(file: str) -> Iterable[str]:
    names = file.split("/")
    return ("/".join(names[:count]) for count in range(1, len(names)))
