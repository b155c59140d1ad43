"""From the server's error objects, and from none coming at all, to the errors that the caller knows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from dayfly import errors
from dayfly.errors import (
    AdmissionRefused,
    DayflyError,
    FileProblem,
    HostError,
    InputError,
    SandboxEnded,
    SandboxFileError,
)
from dayfly.spec import EndReason

__all__ = ["BadAnswer", "ServerUnreachable", "failure", "foreign_failure"]

E = TypeVar("E", bound=StrEnum)

MAX_WORDS = 4000
"""Characters of a message or a remedy: they are sentences."""


class ServerUnreachable(HostError):
    """The dayfly server did not answer, or the connection to it was lost. The message names its URL, never the key."""

    retryable = True


class BadAnswer(HostError):
    """What came from the URL is not what a dayfly server of this version answers."""

    http_status = 502

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        known = "does the url lead to a dayfly server, and of the same version as this client?"
        super().__init__(message, remedy=remedy or known)


def failure(answer: object, status: int = 500, retry_after: str | None = None) -> DayflyError | None:
    """The public error for an error object, ``{"error": {...}}``; ``None`` if it is none.

    ``status`` and ``retry_after`` are those of the answer that had it. A code that this client does not know becomes an
    ``InputError`` or, from 500 on, a ``DayflyError``, with the server's words.
    """
    told = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(told, dict) or not isinstance(told.get("code"), str):
        return None
    known = _KINDS.get(told["code"])
    kind = known or (InputError if 400 <= status < 500 else DayflyError)
    message = _words(told.get("message")) or f"the server refused: {_words(told['code'])}"
    error = kind.__new__(kind)
    DayflyError.__init__(error, message, remedy=_words(told.get("remedy")) or None)
    _add_particulars(error, told, retry_after)
    if known is None:
        error.__dict__.update(code=_words(told["code"]), http_status=status, retryable=told.get("retryable") is True)
    return error


def foreign_failure(status: int, url: str) -> HostError:
    """For an answer of that status that has none of dayfly's own words: a proxy's, or another program's."""
    if status in (502, 503, 504):
        remedy = "the server there is overloaded, or does not run behind the proxy that answers: try again in a while"
        return ServerUnreachable(f"{url} answers {status}", remedy=remedy)
    return BadAnswer(f"{url} answers {status}, and not in dayfly's words", remedy="check the url, with its base path")


def _add_particulars(error: DayflyError, told: Mapping[str, Any], retry_after: str | None) -> None:
    """What some classes carry beside their message."""
    if isinstance(error, SandboxEnded):
        error.reason = _one_of(EndReason, told.get("end_reason"), EndReason.STOPPED).value
        error.detail = _words(told.get("end_detail"))
    elif isinstance(error, SandboxFileError):
        path = told.get("path")
        error.problem = _one_of(FileProblem, told.get("problem"), FileProblem.OTHER)
        error.path = path[:MAX_WORDS] if isinstance(path, str) else ""
        error.detail = _words(told.get("detail"))
    elif isinstance(error, AdmissionRefused):
        error.retry_after = _seconds(retry_after)


def _one_of(kind: type[E], value: object, otherwise: E) -> E:
    return kind(value) if isinstance(value, str) and value in set(kind) else otherwise


def _seconds(header: str | None) -> float:
    """Of a Retry-After: whole seconds, as dayfly's server writes it."""
    return float(header) if header and len(header) < 9 and header.isdecimal() else 1.0


def _words(value: object) -> str:
    """Bounded, and harmless in a terminal."""
    text = value[:MAX_WORDS] if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


_KINDS: Mapping[str, type[DayflyError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DayflyError) and not issubclass(kind, OSError)
}
"""All but errors of the caller's own files, which no server knows of."""
