"""One page of a listing (ListObjectsV2), read with the bounded parser that the gateway has for documents."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dayfly.egress.services.objects.documents import BadDocument, Element, document

__all__ = ["LARGEST_OBJECT", "Listed", "Page", "page_of"]

MOST_LISTED = 1000
"""Of one page, as Amazon's S3 has it."""

LARGEST_OBJECT = 50 << 40
"""Bytes: what the largest store has. Beyond it, a number is no size."""

_DEEPEST = 4
"""With owners of objects, which some stores add."""

_SIZE = re.compile(r"[0-9]{1,16}")


@dataclass(frozen=True)
class Listed:
    """``size`` in bytes, as the listing says."""

    key: str
    size: int


@dataclass(frozen=True)
class Page:
    """``token`` asks for the next one; ``""``: this is the last."""

    objects: tuple[Listed, ...]
    token: str


def page_of(data: bytes) -> Page:
    """Raises ``BadDocument``."""
    root = document(data, plain=False, deepest=_DEEPEST)
    if root.name != "ListBucketResult":
        raise BadDocument("is no listing")
    rows = tuple(_listed(one) for one in root.children if one.name == "Contents")
    if len(rows) > MOST_LISTED:
        raise BadDocument(f"lists more than {MOST_LISTED} objects at once")
    token = _text(root, "NextContinuationToken")
    if (_text(root, "IsTruncated").strip() == "true") != bool(token):
        raise BadDocument("says in two ways whether there is more")
    return Page(rows, token)


def _listed(one: Element) -> Listed:
    key, size = _text(one, "Key"), _text(one, "Size").strip()
    if not key or not _SIZE.fullmatch(size) or int(size) > LARGEST_OBJECT:
        raise BadDocument("lists something without a key or a size")
    return Listed(key, int(size))


def _text(one: Element, name: str) -> str:
    found = [child.text for child in one.children if child.name == name]
    if len(found) > 1:
        raise BadDocument(f"has {name} twice")
    return found[0] if found else ""
