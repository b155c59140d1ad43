"""One spelling for the path of a request: the one that is judged, written down and sent on. What has none is refused, never repaired."""

from __future__ import annotations

import re

__all__ = ["LONGEST_PATH", "BadPath", "canonical_path", "climbs"]

LONGEST_PATH = 8192
"""Characters: what servers take at least (RFC 9110, 4.1)."""

_PLAIN = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")  # RFC 3986, 3.3
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_OTHERS_READ = frozenset("/\\\0")
"""Of which an escape is read as the character itself by some servers, and not by others."""


_DOTS = re.compile(r"\.\.?(?:\s|%(?:20|0[0-9A-F]))*(?:$|[;?#]|%(?:3B|3F|23))", re.IGNORECASE)
"""One or two, and behind them what somebody on the way may take for the end of the name: spaces, and the mark of a parameter or query."""


class BadPath(ValueError):
    """``str()`` says what is wrong, as a phrase whose subject is the path."""


def canonical_path(path: str) -> str:
    """With escapes of what needs none resolved, and the others in capitals. Without query. Raises ``BadPath``."""
    if len(path) > LONGEST_PATH:
        raise BadPath(f"is longer than {LONGEST_PATH} characters")
    if not _PLAIN.fullmatch(path):
        raise BadPath("does not begin with '/', or has a character that must be escaped in a path")
    plain = _ESCAPE.sub(_resolved, path)
    segments = plain.split("/")[1:]
    if any(map(climbs, segments)):
        raise BadPath("has a segment of dots")
    if "" in segments[:-1]:
        raise BadPath("has an empty segment")
    return plain


def climbs(segment: str) -> bool:
    """Whether a server may take a segment of a path for ``.`` or ``..``, escaped or not."""
    return _DOTS.match(segment) is not None


def _resolved(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    if character in _OTHERS_READ:
        raise BadPath("has an escaped slash, backslash or zero byte")
    return character if character in _UNRESERVED else escape[0].upper()
