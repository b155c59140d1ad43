"""The two small XML documents that clients send: read with a bounded parser, and written anew from what was read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from dayfly.egress.http.messages import Body
from dayfly.egress.services.objects.keys import BadSpelling, checked_key

__all__ = ["LONGEST_DOCUMENT", "MOST_KEYS", "MOST_PARTS", "BadDocument", "collected", "document", "keys_of", "parts_of"]

LONGEST_DOCUMENT = 4 << 20
"""Bytes: a list of ten thousand parts with checksums is 3 MB, one of a thousand keys less."""

MOST_KEYS = 1000
MOST_PARTS = 10_000
"""As Amazon's S3 has them."""

_DEEPEST = 3
_MOST_ELEMENTS = 80_000
_LONGEST_TEXT = 4096
_NAMESPACES = ("", "http://s3.amazonaws.com/doc/2006-03-01/")
_CHECKSUMS = tuple(f"Checksum{name}" for name in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"))
_TEXT = re.compile(r"[\x20-\x7e]{1,256}")
_NUMBER = re.compile(r"[0-9]{1,5}")


class BadDocument(ValueError):
    """``str()`` says what is wrong, as a phrase whose subject is the body."""


@dataclass
class Element:
    name: str
    text: str = ""
    children: list[Element] = field(default_factory=list)


async def collected(body: Body, most: int = LONGEST_DOCUMENT) -> bytes:
    """Raises ``BadDocument``."""
    found = bytearray()
    async for piece in body:
        found += piece
        if len(found) > most:
            raise BadDocument(f"is longer than {most} bytes")
    return bytes(found)


def document(data: bytes, *, plain: bool = True, deepest: int = _DEEPEST) -> Element:
    """Raises ``BadDocument``: also for what has a DTD, which is how small documents become large ones. Without ``plain`` attributes and
    namespaces are let pass, and not kept. ``deepest``: elements in each other."""
    reader = _Reader(plain, deepest)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError:
        raise BadDocument("is no XML") from None
    if reader.root is None:
        raise BadDocument("is no XML")
    return reader.root


class _Reader:
    def __init__(self, plain: bool, deepest: int) -> None:
        self._plain = plain
        self._deepest = deepest
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self._open.pop()
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._dtd

    def _start(self, name: str, attributes: object) -> None:
        self._count += 1
        space, _, local = name.rpartition(" ")
        if self._plain and (attributes or space not in _NAMESPACES):
            raise BadDocument("has attributes or a namespace of its own")
        if len(self._open) >= self._deepest or self._count > _MOST_ELEMENTS:
            raise BadDocument("has too many elements, or too deep ones")
        made = Element(local)
        if self._open:
            self._open[-1].children.append(made)
        else:
            self.root = made
        self._open.append(made)

    def _text(self, data: str) -> None:
        one = self._open[-1]
        if len(self._open) < self._deepest and not one.text and data.isspace():
            return  # between the elements
        one.text += data
        if len(one.text) > _LONGEST_TEXT:
            raise BadDocument("has a text that is too long")

    def _dtd(self, *_: object) -> None:
        raise BadDocument("has a DTD")


def keys_of(data: bytes) -> tuple[Sequence[str], bytes]:
    """What ``DeleteObjects`` is to delete, and its body anew. Raises ``BadDocument``."""
    root = document(data)
    quiet, keys = False, []
    if root.name != "Delete":
        raise BadDocument("is no list of keys")
    for child in root.children:
        if child.name == "Quiet" and not child.children:
            quiet = child.text.strip() == "true"
        elif child.name == "Object" and [one.name for one in child.children] == ["Key"]:
            keys.append(_key(child.children[0].text))
        else:
            raise BadDocument("has something else in it than keys: no versions and no conditions are passed on here")
    if not 0 < len(keys) <= MOST_KEYS:
        raise BadDocument(f"has {len(keys)} keys, not 1 to {MOST_KEYS}")
    inner = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
    return keys, f"<Delete>{inner}<Quiet>{str(quiet).lower()}</Quiet></Delete>".encode()


def _key(text: str) -> str:
    try:
        if not text:
            raise BadSpelling("is empty")
        return checked_key(text)
    except BadSpelling as error:
        raise BadDocument(f"has a key that {error}") from None


def parts_of(data: bytes) -> bytes:
    """The body of ``CompleteMultipartUpload`` anew. Raises ``BadDocument``."""
    root = document(data)
    if root.name != "CompleteMultipartUpload" or not 0 < len(root.children) <= MOST_PARTS:
        raise BadDocument(f"is no list of 1 to {MOST_PARTS} parts")
    inner = "".join(_part(child) for child in root.children)
    return f'<CompleteMultipartUpload xmlns="{_NAMESPACES[1]}">{inner}</CompleteMultipartUpload>'.encode()


def _part(part: Element) -> str:
    found = {one.name: one.text.strip() for one in part.children}
    good = part.name == "Part" and len(found) == len(part.children) and {"PartNumber", "ETag"} <= set(found)
    if not good or not _NUMBER.fullmatch(found["PartNumber"]):
        raise BadDocument("has something else in it than parts")
    for name, text in found.items():
        if name not in ("PartNumber", "ETag", *_CHECKSUMS) or not _TEXT.fullmatch(text):
            raise BadDocument("has a part with something that no part has")
    return f"<Part>{''.join(f'<{name}>{escape(text)}</{name}>' for name, text in sorted(found.items()))}</Part>"
