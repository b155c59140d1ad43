"""The table of what may be asked of an object store. What is not in it is refused: operations, parameters and headers alike."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dayfly.network.objects import Access

__all__ = [
    "BODY_SUMS",
    "COPY_SOURCE",
    "HEADERS",
    "META",
    "OPERATIONS",
    "OWN_HEADERS",
    "PARAMETERS",
    "Level",
    "Operation",
    "named",
]

Level = Literal["service", "bucket", "object"]

COPY_SOURCE = "x-amz-copy-source"

META = "x-amz-meta-"

_TEXT = re.compile(r"[\x20-\x7e]{1,1024}")
_NUMBER = re.compile(r"[0-9]{1,13}")
_EMPTY = re.compile(r"")
_OPAQUE = re.compile(r"[A-Za-z0-9._~+/=|-]{1,1024}")
_WITHOUT_CONTROLS = re.compile(r"[^\x00-\x1f\x7f]{0,1024}")

PARAMETERS = {
    "continuation-token": _WITHOUT_CONTROLS,
    "delete": _EMPTY,
    "delimiter": _WITHOUT_CONTROLS,
    "encoding-type": re.compile("url"),
    "fetch-owner": re.compile("false"),  # who owns an account is nobody's business inside
    "key-marker": _WITHOUT_CONTROLS,
    "list-type": re.compile("2"),
    "location": _EMPTY,
    "marker": _WITHOUT_CONTROLS,
    "max-keys": _NUMBER,
    "max-parts": _NUMBER,
    "max-uploads": _NUMBER,
    "part-number-marker": _NUMBER,
    "partNumber": _NUMBER,
    "prefix": _WITHOUT_CONTROLS,
    "start-after": _WITHOUT_CONTROLS,
    "upload-id-marker": _OPAQUE,
    "uploadId": _OPAQUE,
    "uploads": _EMPTY,
}
"""Of queries: what their values may be."""

_CONDITIONS = dict.fromkeys(("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"), _TEXT)
_READING = {**_CONDITIONS, "range": _TEXT, "x-amz-checksum-mode": re.compile("ENABLED")}
_CONTENT = dict.fromkeys(("content-type", "content-encoding", "content-disposition", "content-language", "cache-control", "expires"), _TEXT)  # fmt: skip
_CHECKSUM = re.compile(r"[A-Za-z0-9+/=]{4,88}(?:-[0-9]{1,5})?")
_CHECKSUMS = {
    "content-md5": _CHECKSUM,
    **{f"x-amz-checksum-{name}": _CHECKSUM for name in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256")},
    "x-amz-checksum-type": re.compile("COMPOSITE|FULL_OBJECT"),
    "x-amz-checksum-algorithm": re.compile("CRC32|CRC32C|CRC64NVME|SHA1|SHA256"),
}
BODY_SUMS = frozenset(_CHECKSUMS)
"""Headers that are about the body as it was sent: of one that is written anew they are no longer true."""

_KEEPING = {
    "x-amz-server-side-encryption": re.compile("AES256"),  # not with keys of somebody's choice
    "x-amz-storage-class": re.compile("STANDARD"),
}
_WRITING = {"if-match": _TEXT, "if-none-match": _TEXT, **_CONTENT, **_CHECKSUMS, **_KEEPING}
_COPYING = {f"{COPY_SOURCE}-{name}": _TEXT for name in _CONDITIONS}
_COMPLETING = {
    **_CHECKSUMS,
    "if-match": _TEXT,
    "if-none-match": _TEXT,
    "x-amz-mp-object-size": _NUMBER,
}

HEADERS = {"x-amz-expected-bucket-owner": re.compile("[0-9]{12}")}
"""Of every operation."""

OWN_HEADERS = frozenset(
    {
        "x-amz-date",
        "x-amz-content-sha256",
        "x-amz-security-token",
        "x-amz-decoded-content-length",
        "x-amz-trailer",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-user-agent",
        COPY_SOURCE,
    }
)
"""Of the sandbox's own signature and of how it sends the body: they are read and go no further."""


@dataclass(frozen=True)
class Operation:
    """``needs``: parameters that make it this one; ``may``: others. ``access`` is ``None`` where the gateway itself answers.
    ``source``: it has another object to copy from. ``meta``: it may carry the object's own metadata."""

    name: str
    method: str
    level: Level
    access: Access | None
    needs: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()
    headers: tuple[tuple[str, re.Pattern[str]], ...] = ()
    body: Literal["", "bytes", "parts", "keys"] = ""
    source: bool = False
    meta: bool = False

    def fits(self, method: str, level: Level, names: Collection[str], source: bool) -> bool:
        if (self.method, self.level, self.source) != (method, level, source):
            return False
        return self.needs <= set(names) <= self.needs | self.may


def _one(
    name: str,
    line: str,
    level: Level,
    access: Access | None,
    *,
    may: str = "",
    headers: dict[str, re.Pattern[str]] | None = None,
    body: Literal["", "bytes", "parts", "keys"] = "",
    source: bool = False,
    meta: bool = False,
) -> Operation:
    """``line``: the method, then what the query needs."""
    method, *needs = line.split()
    known = tuple({**HEADERS, **(headers or {})}.items())
    return Operation(name, method, level, access, frozenset(needs), frozenset(may.split()), known, body, source, meta)


_PAGES = "prefix delimiter encoding-type"

OPERATIONS = (
    _one("ListBuckets", "GET", "service", None),
    _one("HeadBucket", "HEAD", "bucket", None),
    _one("GetBucketLocation", "GET location", "bucket", None),
    _one("ListObjects", "GET", "bucket", "list", may=f"{_PAGES} marker max-keys"),
    _one(
        "ListObjectsV2",
        "GET list-type",
        "bucket",
        "list",
        may=f"{_PAGES} continuation-token fetch-owner max-keys start-after",
    ),
    _one(
        "ListMultipartUploads",
        "GET uploads",
        "bucket",
        "write",
        may=f"{_PAGES} key-marker max-uploads upload-id-marker",
    ),
    _one("DeleteObjects", "POST delete", "bucket", "write", body="keys"),
    _one("GetObject", "GET", "object", "read", may="partNumber", headers=_READING),
    _one("HeadObject", "HEAD", "object", "read", may="partNumber", headers=_READING),
    _one("PutObject", "PUT", "object", "write", headers=_WRITING, body="bytes", meta=True),
    _one(
        "CopyObject",
        "PUT",
        "object",
        "write",
        headers={**_WRITING, **_COPYING, "x-amz-metadata-directive": re.compile("COPY|REPLACE")},
        source=True,
        meta=True,
    ),
    _one("DeleteObject", "DELETE", "object", "write", headers={"if-match": _TEXT}),
    _one("CreateMultipartUpload", "POST uploads", "object", "write", headers=_WRITING, meta=True),
    _one("UploadPart", "PUT partNumber uploadId", "object", "write", headers=_CHECKSUMS, body="bytes"),
    _one(
        "UploadPartCopy",
        "PUT partNumber uploadId",
        "object",
        "write",
        headers={**_COPYING, f"{COPY_SOURCE}-range": _TEXT},
        source=True,
    ),
    _one("CompleteMultipartUpload", "POST uploadId", "object", "write", headers=_COMPLETING, body="parts"),
    _one("AbortMultipartUpload", "DELETE uploadId", "object", "write"),
    _one(
        "ListParts", "GET uploadId", "object", "write", may="max-parts part-number-marker encoding-type"
    ),
)  # fmt: skip


def named(method: str, level: Level, names: Collection[str], source: bool) -> Operation | None:
    """The one operation that a request with parameters of these names is; ``None``: none that there is here."""
    return next((one for one in OPERATIONS if one.fits(method, level, names, source)), None)
