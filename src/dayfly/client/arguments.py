"""Arguments as callers give them, checked before anything is done: a mistake is one ``InputError`` that names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dayfly.errors import InputError

__all__ = ["LocalPath", "bytes_of", "decoded", "environment", "local_path", "number_or_none", "whole_number"]

LocalPath = str | os.PathLike[str]
"""A file or directory of the caller's machine."""

_MOST = 2**63 - 1


def whole_number(name: str, value: int, *, least: int = 0, most: int = _MOST) -> int:
    """``value``, if it is one within the bounds. Raises ``InputError``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bound = f"from {least} to {most}" if most < _MOST else f"of at least {least}"
        raise InputError(f"{name} must be a whole number {bound}, not {_shown(value)}")
    return int(value)


def positive(name: str, value: float) -> float:
    """``value``, if it is a number above 0. Raises ``InputError``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{name} must be a positive number, not {_shown(value)}")
    return float(value)


def number_or_none(name: str, value: int | None) -> int | None:
    """``None``, or what ``whole_number`` takes. Raises ``InputError``."""
    return None if value is None else whole_number(name, value)


def local_path(value: LocalPath) -> Path:
    """A path of this machine. Raises ``InputError``."""
    text = value if isinstance(value, str) else None
    if isinstance(value, os.PathLike):
        text = os.fspath(value)
    if not isinstance(text, str):
        raise InputError(f"a local path is str or a path object, not {type(value).__name__}")
    try:
        usable = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise InputError(f"not a local path: {_shown(text)}", remedy="a path is not empty and has no NUL")
    return Path(text)


def bytes_of(name: str, data: object, *, text: bool = True) -> bytes | bytearray | memoryview:
    """Bytes as they are, text (unless it is not allowed) as UTF-8. Raises ``InputError``."""
    if isinstance(data, str) and text:
        try:
            return data.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise InputError(
                f"{name} has characters that UTF-8 does not have: {data[error.start : error.end]!r:.40}",
                remedy="encode it, and give bytes",
            ) from None
    if isinstance(data, memoryview) and not data.c_contiguous:
        return data.tobytes()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError(f"{name} must be {'text or ' if text else ''}bytes, not {type(data).__name__}")
    return data


def decoded(data: bytes, encoding: str) -> str:
    """Text; what is undecodable is replaced by U+FFFD. Raises ``InputError`` for what is no encoding."""
    try:
        return data.decode(encoding, "replace")
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"not an encoding of text: {_shown(encoding)}", remedy="for example 'utf-8'") from error


def environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Environment variables. Raises ``InputError``."""
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise InputError(f"env must be a mapping of text to text, not {type(env).__name__}")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InputError(f"environment variables are text: {_shown(name)} is {_shown(value)}")
        if not name or "=" in name or "\0" in name + value:
            raise InputError(f"not an environment variable: {_shown(name)}")
    return dict(env)


def _shown(value: object) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001  # such as an integer of too many digits
        return f"a {type(value).__name__}"
