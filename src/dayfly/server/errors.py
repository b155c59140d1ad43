"""Errors that only the server has, and the one form in which all errors go out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dayfly.errors import DayflyError, InputError, SandboxEnded, SandboxFileError

__all__ = [
    "BodyTooLarge",
    "ClientGone",
    "HeadersTooLong",
    "InternalError",
    "NoSuchExecution",
    "NoSuchKey",
    "NoSuchProof",
    "NoSuchRoute",
    "NoSuchTemplate",
    "NotAllowed",
    "RangeUnsatisfiable",
    "RequestRefused",
    "TooManyFailures",
    "Unauthenticated",
    "UriTooLong",
    "WrongMethod",
    "error_body",
    "error_headers",
]


class Unauthenticated(InputError):
    """No secret came with the request, or none that is valid now."""

    http_status = 401


class TooManyFailures(InputError):
    """Too many wrong secrets from one address. ``retry_after`` is in seconds."""

    retryable = True
    http_status = 429

    def __init__(self, message: str, *, retry_after: float, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after


class NotAllowed(InputError):
    """The secret is valid, but may not do this."""

    http_status = 403


class RequestRefused(InputError):
    """The request comes from a web page, or by a name that is not this server's."""

    http_status = 403


class NoSuchRoute(InputError):
    """This API has no such path."""

    http_status = 404


class NoSuchExecution(InputError):
    """No run of that id is under way or kept in this sandbox."""

    http_status = 404


class NoSuchKey(InputError):
    """The tenant has no key of that id."""

    http_status = 404


class NoSuchProof(InputError):
    """This server has made no proof of that id since it was started, or forgotten it."""

    http_status = 404


class NoSuchTemplate(InputError):
    """The server has no template of that name."""

    http_status = 404


class WrongMethod(InputError):
    """The path is there, but not for this method."""

    http_status = 405


class BodyTooLarge(InputError):
    """The body is larger than this call takes."""

    http_status = 413


class UriTooLong(InputError):
    """Path or query are longer than any of this API."""

    http_status = 414


class HeadersTooLong(InputError):
    """The headers are longer than this API needs."""

    http_status = 431


class RangeUnsatisfiable(InputError):
    """The range of bytes begins after the end of the file."""

    http_status = 416


class ClientGone(InputError):
    """Nobody waits for the answer any more."""

    http_status = 499


class InternalError(DayflyError):
    """A mistake in dayfly itself."""


def error_body(error: DayflyError) -> dict[str, Any]:
    """The JSON object of an error, for an answer or for the last line of a stream."""
    told: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy,
        "retryable": error.retryable,
    }
    if isinstance(error, SandboxEnded):
        told |= {"end_reason": error.reason, "end_detail": error.detail}
    if isinstance(error, SandboxFileError):
        told |= {"problem": error.problem.value, "path": error.path, "detail": error.detail}
    if (seconds := getattr(error, "retry_after", None)) is not None:
        told["retry_after"] = seconds
    return {"error": told}


def error_headers(error: DayflyError) -> Mapping[str, str]:
    """What an error says outside of its body."""
    found = {}
    if error.http_status in (429, 503) and error.retryable:
        found["retry-after"] = str(max(1, round(getattr(error, "retry_after", None) or 1)))
    if isinstance(error, Unauthenticated):
        found["www-authenticate"] = "Bearer"
    return found
