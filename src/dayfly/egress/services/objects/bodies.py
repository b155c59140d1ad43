"""The body that goes to the store: as it comes, without the sandbox's way of sending it, or written anew where it says what is done."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dayfly.egress.http.messages import Body, Headers, Request, nothing, once
from dayfly.egress.services.objects.asking import Asked, BadRequest
from dayfly.egress.services.objects.chunks import unchunked
from dayfly.egress.services.objects.documents import BadDocument, collected, keys_of, parts_of
from dayfly.egress.services.objects.signing import UNSIGNED

__all__ = ["Outgoing", "outgoing"]

_EMPTY = hashlib.sha256().hexdigest()
_LENGTH = re.compile(r"[0-9]{1,13}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_STREAMING = frozenset(
    f"STREAMING-{name}"
    for name in (
        "UNSIGNED-PAYLOAD-TRAILER",
        "AWS4-HMAC-SHA256-PAYLOAD",
        "AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
    )
)
_TRAILER = re.compile(r"x-amz-checksum-(?:crc32|crc32c|crc64nvme|sha1|sha256)")


@dataclass(frozen=True)
class Outgoing:
    """``digest``: its SHA-256, or that nobody says it. ``keys``: that the operation is about. ``headers``: those that belong to it."""

    keys: Sequence[str]
    body: Body = field(default_factory=nothing)
    length: int = 0
    digest: str = _EMPTY
    headers: Headers = ()


async def outgoing(asked: Asked, request: Request) -> Outgoing:
    """Reads nothing of a body that is passed on as it comes. Raises ``BadRequest``."""
    kind = asked.operation.body
    if kind == "bytes":
        return _bytes(asked, request)
    if kind:
        return await _document(asked, request)
    if request.length != 0:
        raise BadRequest(f"{asked.operation.name} has no body.")
    return Outgoing((asked.prefix,))


async def _document(asked: Asked, request: Request) -> Outgoing:
    try:
        data = await collected(_plain(request)[0])
        if asked.operation.body == "parts":
            made, keys = parts_of(data), (asked.key,)
            return Outgoing(keys, once(made), len(made), hashlib.sha256(made).hexdigest())
        found, made = keys_of(data)
    except BadDocument as error:
        raise BadRequest(f"The body {error}.") from None
    checksum = base64.b64encode(hashlib.md5(made, usedforsecurity=False).digest()).decode()
    return Outgoing(found, once(made), len(made), hashlib.sha256(made).hexdigest(), (("content-md5", checksum),))


def _bytes(asked: Asked, request: Request) -> Outgoing:
    body, length = _plain(request)
    if length is None:
        raise BadRequest("The request does not say how long its body is (Content-Length).")
    said = request.header("x-amz-content-sha256") or ""
    digest = said if _DIGEST.fullmatch(said) else UNSIGNED
    return Outgoing((asked.key,), body, length, _EMPTY if length == 0 else digest)


def _plain(request: Request) -> tuple[Body, int | None]:
    """Without chunks. Raises ``BadRequest``."""
    how = request.header("x-amz-content-sha256") or UNSIGNED
    chunked = "aws-chunked" in (request.header("content-encoding") or "").lower()
    if how not in _STREAMING:
        if chunked or not (how == UNSIGNED or _DIGEST.fullmatch(how)):
            raise BadRequest("The request says in two ways how its body is sent, or in one that is not known here.")
        return request.body, request.length
    length = request.header("x-amz-decoded-content-length") or ""
    trailer = (request.header("x-amz-trailer") or "").strip().lower()
    if not _LENGTH.fullmatch(length):
        raise BadRequest("The request does not say how long its body is (x-amz-decoded-content-length).")
    if trailer and not _TRAILER.fullmatch(trailer):
        raise BadRequest("The request announces a trailer that is no checksum.")
    return unchunked(request.body, int(length), trailer), int(length)
