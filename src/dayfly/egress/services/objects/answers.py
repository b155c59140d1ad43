"""What the sandbox is answered: by the gateway itself, and what is left of the store's answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from xml.parsers import expat
from xml.sax.saxutils import escape

from dayfly.egress.http.messages import Headers, Response, once
from dayfly.egress.services.objects.documents import Element, document

__all__ = ["LONGEST_ERROR", "REPORTS", "buckets", "error", "explained", "location", "passed", "reported", "there"]

LONGEST_ERROR = 64 << 10
"""Bytes of a store's error that are read; the document is some hundred."""

REPORTS = frozenset({"DeleteObjects", "CopyObject", "UploadPartCopy", "CompleteMultipartUpload"})
"""Operations whose status is 200 before it is known how they end: errors are in the document."""

_XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'

_PASSED = frozenset(
    {
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-range",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "x-amz-bucket-region",
        "x-amz-checksum-crc32",
        "x-amz-checksum-crc32c",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-sha1",
        "x-amz-checksum-sha256",
        "x-amz-checksum-type",
        "x-amz-delete-marker",
        "x-amz-missing-meta",
        "x-amz-mp-parts-count",
        "x-amz-request-id",
        "x-amz-server-side-encryption",
        "x-amz-storage-class",
    }
)
"""Of a store's headers. Not which key encrypts, which rule expires it, which server answered, where a copy is: names of an account's."""

_OF_CREDENTIALS = re.compile(
    r"AccessDenied|.*Signature.*|InvalidAccessKeyId|ExpiredToken|InvalidToken|TokenRefreshRequired|Authorization.*|"
    r"RequestTimeTooSkewed|AccountProblem|NotSignedUp|.*Credential.*|.*Security.*"
)
"""Codes whose text names users, accounts, keys, or what was signed."""

_OUTSIDE = "The object store itself refused this to the credentials that are used outside; the rule here allows it."

_TOLD_OF_ERRORS = frozenset({"Key", "Code", "Message"})

_CODE = re.compile(r"[A-Za-z0-9.]{1,64}")
_UNSHOWN = re.compile(r"[^\x20-\x7e]")


def error(status: int, code: str, message: str) -> Response:
    """In S3's form."""
    return _document(
        status, f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message><Resource/></Error>"
    )


def buckets(names: Iterable[str]) -> Response:
    inner = "".join(
        f"<Bucket><Name>{name}</Name><CreationDate>1970-01-01T00:00:00.000Z</CreationDate></Bucket>"
        for name in sorted(set(names))
    )
    return _document(
        200,
        f"<ListAllMyBucketsResult {_XMLNS}><Owner><ID>dayfly</ID></Owner><Buckets>{inner}</Buckets>"
        "</ListAllMyBucketsResult>",
    )


def location(region: str) -> Response:
    """Empty for the first region there was, as Amazon has it."""
    inner = "" if region == "us-east-1" else escape(region)
    return _document(200, f"<LocationConstraint {_XMLNS}>{inner}</LocationConstraint>")


def there(region: str) -> Response:
    return Response(200, (("x-amz-bucket-region", region), ("content-type", "application/xml")))


def _document(status: int, text: str) -> Response:
    data = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    return Response(status, (("content-type", "application/xml"),), once(data), len(data))


def passed(headers: Headers) -> Headers:
    """Those of a store's that may go in."""
    return tuple((name, value) for name, value in headers if name in _PASSED or name.startswith("x-amz-meta-"))


def explained(status: int, body: bytes, hidden: Iterable[str]) -> Response:
    """A store's error, as far as it is about what was asked for and not about who asks outside. ``hidden``: texts that never go in."""
    code, message = _code_and_message(body)
    if 300 <= status < 400:
        text = f"The object store sent this elsewhere ({status}), and nobody follows: endpoint or region of the rule are not those of the bucket."
        return error(400, "InvalidRequest", text)
    if _OF_CREDENTIALS.fullmatch(code) or (not code and status in (401, 403)):
        return error(status, code or "AccessDenied", _OUTSIDE)
    for one in hidden:
        message = message.replace(one, "***")
    return error(status, code or f"Status{status}", f"The object store answered: {message or 'nothing more'}")


def reported(data: bytes, hidden: Iterable[str]) -> bytes:
    """A document of ``REPORTS`` anew, with errors as ``explained`` has them. Raises ``BadDocument``."""
    root = document(data, plain=False)
    for one in (root, *root.children):
        if one.name == "Error":
            _hush(one, tuple(hidden))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_written(root, f" {_XMLNS}")}'.encode()


def _hush(one: Element, hidden: tuple[str, ...]) -> None:
    one.children = [child for child in one.children if child.name in _TOLD_OF_ERRORS]
    of_credentials = any(child.name == "Code" and _OF_CREDENTIALS.fullmatch(child.text) for child in one.children)
    for child in one.children:
        if child.name == "Message":
            child.text = _OUTSIDE if of_credentials else child.text
        for text in hidden if child.name != "Key" else ():
            child.text = child.text.replace(text, "***")


def _written(one: Element, attributes: str = "") -> str:
    return f"<{one.name}{attributes}>{escape(one.text)}{''.join(map(_written, one.children))}</{one.name}>"


def _code_and_message(body: bytes) -> tuple[str, str]:
    found: dict[str, str] = {}
    path: list[str] = []
    parser = expat.ParserCreate("utf-8")

    def text(data: str) -> None:
        if len(path) == 2:
            found[path[1]] = (found.get(path[1], "") + data)[:1000]

    def dtd(*_: object) -> None:
        raise ValueError

    parser.StartElementHandler = lambda name, _: path.append(name)
    parser.EndElementHandler = lambda _: path.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = dtd
    with suppress(expat.ExpatError, ValueError):  # what was read until there is what there is
        parser.Parse(body[:LONGEST_ERROR], True)
    code = found.get("Code", "")
    return (code if _CODE.fullmatch(code) else ""), _UNSHOWN.sub("?", found.get("Message", ""))[:500]
