"""Paths inside a sandbox, as callers write them."""

from __future__ import annotations

from pathlib import PurePosixPath

from dayfly.errors import InputError

__all__ = ["SandboxPath", "last_name", "path_text"]

SandboxPath = str | bytes | PurePosixPath
"""Absolute, or relative to the home. Bytes that are not UTF-8 become lone surrogates (PEP 383) and stay exact."""


def path_text(path: SandboxPath) -> str:
    """The path as it travels. Raises ``InputError``."""
    if isinstance(path, bytes):
        text = path.decode("utf-8", "surrogateescape")
    elif isinstance(path, (str, PurePosixPath)):
        text = str(path)
    else:
        raise InputError(f"a path is str, bytes or PurePosixPath, not {type(path).__name__}")
    if not text or "\0" in text or not _has_bytes(text):
        raise InputError(f"not a path: {text!r:.100}", remedy="a path is not empty and has no NUL")
    return text


def _has_bytes(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def last_name(path: str) -> str:
    """The last component, fit to be a local file's name. Raises ``InputError`` if there is none."""
    name = PurePosixPath(path).name
    if name in ("", ".", ".."):
        raise InputError(f"{path!r} does not end in a file's name", remedy="name the local file")
    return name
