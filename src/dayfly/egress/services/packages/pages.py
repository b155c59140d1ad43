"""What an index says of a project, in JSON (PEP 691, 700) or HTML (PEP 503, 592, 658): read with bounds, and believed as little as
it needs to be. What does not fit is left out: no file is made of half of what is said about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from math import prod
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from dayfly.egress.services.packages.digests import Digests, digests_of_simple
from dayfly.egress.services.packages.index import joined

__all__ = ["JSON", "MOST_FILES", "MOST_HTML", "BadPage", "File", "files_of"]

JSON = "application/vnd.pypi.simple.v1+json"

MOST_FILES = 50_000
"""Of one project. The largest have 20,000."""

MOST_HTML = 8 * 1024 * 1024
"""Bytes. The largest pages of 20,000 files have 5 MiB."""

_LONGEST_TAG = 2048
"""Characters of an HTML tag. What is longer is no link to a file."""

_LONGEST_TEXT = 1024

_MOST_TAGS = 256
"""Of one wheel. Real ones have a dozen; 250 characters could have sixty thousand, which take 30 ms to read."""

_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]{0,250}")
_ANCHOR = re.compile(r"<a\s", re.IGNORECASE)
_BASE = re.compile(r"<base\s", re.IGNORECASE)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z", re.ASCII)


class BadPage(Exception):
    """It is nothing that lists files."""


@dataclass(frozen=True)
class File:
    """``url`` is absolute, and not to be trusted. ``yanked``: why, perhaps ``""``. ``metadata``: whether there is a file beside it
    that has its metadata (PEP 658), and what that has to be."""

    name: str
    url: str
    version: Version
    wheel: bool
    digests: Digests
    requires_python: str | None = None
    yanked: str | None = None
    metadata: Digests | None = None
    size: int | None = None
    uploaded: datetime | None = None


def files_of(project: str, url: str, content_type: str, content: bytes) -> tuple[File, ...]:
    """Those of ``project``, a normalised name, in their order. Raises ``BadPage``."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith("json"):
        found = _of_json(url, content)
    elif len(content) <= MOST_HTML and kind in (
        "text/html",
        "application/vnd.pypi.simple.v1+html",
        "application/xhtml+xml",
    ):
        found = _of_html(url, content.decode("utf-8", "replace"))
    else:
        raise BadPage
    return tuple(one for name, told in found if (one := _file(project, name, told)) is not None)


def _file(project: str, name: object, told: Mapping[str, Any]) -> File | None:
    known = _known(name) if isinstance(name, str) else None
    if known is None or known[0] != project:
        return None
    return File(name=str(name), version=known[1], wheel=known[2], **told)


def _known(name: str) -> tuple[str, Version, bool] | None:
    """Project, version, and whether it is a wheel, of the name of a file."""
    if not _FILENAME.fullmatch(name):
        return None
    try:
        if name.endswith(".whl") and _tags_of(name) <= _MOST_TAGS:
            return (*parse_wheel_filename(name)[:2], True)
        if name.endswith((".tar.gz", ".zip")):
            return (*parse_sdist_filename(name), False)
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        pass
    return None


def _tags_of(name: str) -> int:
    """Of a wheel's name, each of which is made when it is read: the three sets behind its version are multiplied."""
    sets = name.removesuffix(".whl").split("-")[-3:]
    return prod(one.count(".") + 1 for one in sets)


def _text(value: object) -> str | None:
    """Short, and printable."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT and value.isprintable() else None


# --- JSON -------------------------------------------------------------------------------------------------------------


def _of_json(url: str, content: bytes) -> Iterator[tuple[object, dict[str, Any]]]:
    try:
        page = json.loads(content)
        version, files = page["meta"]["api-version"], page["files"]
    except (ValueError, RecursionError, LookupError, TypeError):
        raise BadPage from None
    if not isinstance(version, str) or not version.startswith("1.") or not isinstance(files, list):
        raise BadPage
    for one in files[:MOST_FILES]:
        if isinstance(one, dict) and isinstance(one.get("url"), str):
            yield one.get("filename"), _told(url, one)


def _told(url: str, one: Mapping[str, Any]) -> dict[str, Any]:
    metadata = one.get("core-metadata", one.get("dist-info-metadata"))
    size = one.get("size")
    yanked = one.get("yanked", False)
    return {
        "url": joined(url, one["url"]),
        "digests": digests_of_simple(_pairs(one.get("hashes"))),
        "requires_python": _text(one.get("requires-python")),
        "yanked": None if yanked is False else _text(yanked) or "",
        "metadata": digests_of_simple(_pairs(metadata)) if metadata else None,
        "size": size if type(size) is int and 0 <= size < 2**53 else None,
        "uploaded": _time(one.get("upload-time")),
    }


def _pairs(hashes: object) -> Iterator[tuple[str, str]]:
    if isinstance(hashes, dict):
        for kind, digits in list(hashes.items())[:16]:
            if isinstance(digits, str):
                yield kind, digits


def _time(text: object) -> datetime | None:
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    try:
        return datetime.fromisoformat(match[1]).replace(tzinfo=UTC) if match else None
    except ValueError:
        return None


# --- HTML -------------------------------------------------------------------------------------------------------------


class _Read(Exception):
    """There is nothing more to read."""


class _Tag(HTMLParser):
    """The attributes of the tag that a text begins with. It is given a few thousand characters and stops behind the tag: what an HTML
    parser does with a whole hostile page may take quadratic time."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, str] | None = None
        with suppress(_Read, ValueError, AssertionError):
            self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found = {name: value or "" for name, value in attributes}
        raise _Read

    def handle_data(self, data: str) -> None:
        raise _Read


def _of_html(url: str, text: str) -> Iterator[tuple[object, dict[str, Any]]]:
    base = next(_tags(_BASE, text[: 2 * _LONGEST_TAG]), {})
    url = joined(url, base.get("href", ""))
    for number, attributes in enumerate(_tags(_ANCHOR, text)):
        if number >= MOST_FILES:
            return
        if attributes.get("href"):
            yield _linked(url, attributes)


def _tags(pattern: re.Pattern[str], text: str) -> Iterator[dict[str, str]]:
    starts = [match.start() for _, match in zip(range(MOST_FILES + 1), pattern.finditer(text), strict=False)]
    for start, following in pairwise([*starts, len(text)]):
        found = _Tag(text[start : min(following, start + _LONGEST_TAG)]).found
        if found is not None:
            yield found


def _linked(url: str, attributes: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    whole, _, fragment = joined(url, attributes["href"]).partition("#")
    metadata = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
    try:
        name = unquote(urlsplit(whole).path.rpartition("/")[2])
    except ValueError:
        name = ""
    return name, {
        "url": whole,
        "digests": digests_of_simple([_pair(fragment)]),
        "requires_python": _text(attributes.get("data-requires-python")),
        "yanked": (_text(attributes["data-yanked"]) or "") if "data-yanked" in attributes else None,
        "metadata": digests_of_simple([_pair(metadata)]) if metadata not in (None, "", "false") else None,
    }


def _pair(text: str) -> tuple[str, str]:
    kind, _, digits = text.partition("=")
    return kind, digits
