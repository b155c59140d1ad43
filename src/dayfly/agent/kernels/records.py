"""Records between the agent and the driver of a kernel: 4 bytes of length (big endian), then one JSON object.

Law of this module: what a driver sends is hostile. ``Reader`` holds at most one record of ``limit`` bytes, and everything
wrong with it is one ``BadRecord``; nothing else is raised, whatever the bytes.
"""

from __future__ import annotations

import struct

from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.payloads import dump_json, load_json

HEADER = struct.Struct("!I")

HARD_LIMIT = 32 * 1024 * 1024
"""Bytes of one record, whatever the run's output cap: what one context can make the agent hold."""

ENVELOPE = 1024 * 1024
"""Bytes that a record may have beyond the run's output cap: an error's text, a bundle's keys and metadata."""

STATUSES = ("ok", "error", "interrupted")
LIMITS = ("memory", "processes", "disk", "shm", "open_files")
MAX_TYPES = 32
"""MIME types in one bundle; IPython's richest objects have about ten."""

MAX_RENEWED = 32
"""Names of generators in one answer; there are six."""

MAX_NAME, MAX_VALUE, MAX_TRACEBACK = 256, 8 * 1024, 48 * 1024
"""Characters of an error's parts. Escaped at the worst (12 bytes each) they fit in one frame of 1 MiB."""

BINARY_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
"""MIME types whose value is base64 text in a record."""

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class BadRecord(Exception):
    """The driver broke the protocol; the text says how, without the driver's own bytes."""


def encode(record: dict[str, object]) -> bytes:
    """The bytes of a record."""
    payload = dump_json(record)
    return HEADER.pack(len(payload)) + payload


class Reader:
    """Cuts the bytes that a driver sends into records. ``limit`` is the size that the next record may have."""

    __slots__ = ("_buffer", "limit")

    def __init__(self, limit: int = HARD_LIMIT) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def wanted(self) -> int:
        """Bytes worth reading now: never more than what completes the record under way, plus a little."""
        if len(self._buffer) < HEADER.size:
            return 65536
        return max(65536, HEADER.size + min(self._length(), self.limit) - len(self._buffer))

    def _length(self) -> int:
        length: int = HEADER.unpack_from(self._buffer)[0]
        return length

    def next(self) -> dict[str, object] | None:
        """The next complete record, checked; ``None`` if it is not all there. Raises ``BadRecord``."""
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        length = self._length()
        if length > self.limit:
            raise BadRecord(f"a record of {length} bytes was announced, {self.limit} are allowed")
        end = HEADER.size + length
        if len(buffer) < end:
            return None
        payload = bytes(memoryview(buffer)[HEADER.size : end])
        del buffer[:end]
        return check(parse(payload))

    def __len__(self) -> int:
        return len(self._buffer)


def parse(payload: bytes) -> object:
    try:
        return load_json(payload)
    except RemoteProtocolError as error:
        raise BadRecord(str(error)) from None


def check(record: object) -> dict[str, object]:
    """``record`` if it has one of the four shapes that a driver may send. Raises ``BadRecord``."""
    if isinstance(record, dict):
        for name, shape in _SHAPES.items():
            if name in record:
                _check_fields(record, shape, name)
                _FURTHER[name](record if len(shape) > 1 else record[name])
                return record
    raise BadRecord("a record of no known kind")


def _check_fields(value: object, shape: dict[str, tuple[type, ...]], what: str) -> None:
    if not isinstance(value, dict) or len(value) != len(shape):
        raise BadRecord(f"{what} with other fields than agreed")
    for field, kinds in shape.items():
        if field not in value or type(value[field]) not in kinds:
            raise BadRecord(f"{what}: {field} is missing or of the wrong type")


_NONE = type(None)
_SHAPES: dict[str, dict[str, tuple[type, ...]]] = {
    "ready": {"ready": (dict,)},
    "display": {"display": (dict,)},
    "done": {
        "done": (int,),
        "status": (str,),
        "error": (dict, _NONE),
        "limit": (str, _NONE),
        "exit_code": (int, _NONE),
        "background": (int,),
    },
    "renewed": {"renewed": (list,), "kept": (list,)},
}
_DISPLAY: dict[str, tuple[type, ...]] = {"data": (dict,), "metadata": (dict,), "main": (bool,), "omitted": (int,)}
_ERROR: dict[str, tuple[type, ...]] = {"name": (str,), "value": (str,), "traceback": (str,)}


def _check_ready(facts: object) -> None:
    pass  # claims for people; the agent only passes on what it asks for by name


def _check_display(display: object) -> None:
    _check_fields(display, _DISPLAY, "display")
    assert isinstance(display, dict)
    data = display["data"]
    if len(data) > MAX_TYPES or display["omitted"] < 0:
        raise BadRecord(f"display with more than {MAX_TYPES} types")
    for name, value in data.items():
        if not (name.isascii() and name.isprintable() and 2 < len(name) < MAX_NAME):
            raise BadRecord("display with a type that is no MIME type")
        if type(value) is not str and not is_json_type(name):
            raise BadRecord("display with a value that is not text")
        if name in BINARY_TYPES and not is_base64(value):
            raise BadRecord("display with a value that is not base64")


def _check_done(record: object) -> None:
    assert isinstance(record, dict)
    if record["status"] not in STATUSES or record["limit"] not in (None, *LIMITS):
        raise BadRecord("done with an unknown status or limit")
    if not (record["exit_code"] is None or 0 <= record["exit_code"] < 256):
        raise BadRecord("done with a number out of range")
    if record["background"] < 0:
        raise BadRecord("done with less than nothing in the background")
    error = record["error"]
    if error is not None:
        _check_fields(error, _ERROR, "error")
        record["error"] = clip_error(error["name"], error["value"], error["traceback"])


def _check_renewed(record: object) -> None:
    assert isinstance(record, dict)
    for names in (record["renewed"], record["kept"]):
        if len(names) > MAX_RENEWED or any(type(name) is not str or len(name) > MAX_NAME for name in names):
            raise BadRecord("renewed with other things than a few names")


_FURTHER = {"ready": _check_ready, "display": _check_display, "done": _check_done, "renewed": _check_renewed}


def is_json_type(name: str) -> bool:
    """Whether a MIME type's value is a JSON value and not text."""
    return name == "application/json" or name.endswith("+json")


def is_base64(text: str) -> bool:
    """Whether it is base64, strictly: the host takes nothing else for a binary type."""
    if not text.isascii() or len(text) % 4:
        return False
    bare = text[:-2] + text[-2:].rstrip("=")
    return not bare.encode("ascii").translate(None, _BASE64)


def clip_error(name: str, value: str, traceback: str) -> dict[str, object]:
    """The error's three texts, each within its cap; a traceback keeps its beginning and, above all, its end."""
    return {
        "name": name[:MAX_NAME],
        "value": clip(value, MAX_VALUE),
        "traceback": clip(traceback, MAX_TRACEBACK, MAX_TRACEBACK // 4),
    }


def clip(text: str, cap: int, head: int | None = None) -> str:
    """``text`` in at most ``cap`` characters, saying how much was left out; ``head`` of them from its beginning."""
    if len(text) <= cap:
        return text
    note = f"\n... {len(text) - cap} characters left out ...\n"
    room = cap - len(note)
    if head is None:
        return text[:room] + note
    return text[:head] + note + text[len(text) - room + head :]
