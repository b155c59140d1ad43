"""What a run or command prints: decoded, capped, handed on. The cap is kept here again, whatever the agent does."""

from __future__ import annotations

import base64
import binascii
import codecs
from typing import Any

from dayfly.spec import Result
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.messages import load_json
from dayfly.wire.payloads import values_in

__all__ = ["Budget", "ResultReader", "TextReader", "decode_result"]

BINARY_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
JSON_TYPES = frozenset({"application/json"})
MAX_MIME_TYPES = 32
"""Representations in one bundle: IPython knows a dozen."""

MAX_VALUES = 1 << 18
"""JSON values in all results of one run: three bytes of text can be an object of 90, and this caps them at some 24 MB."""

_LENGTH = 4
_Decoder = codecs.getincrementaldecoder("utf-8")


class Budget:
    """Bytes that may still be taken in; the rest is counted and dropped."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.dropped = 0

    def take(self, data: bytes) -> bytes:
        kept = data[: self.left] if len(data) > self.left else data
        self.left -= len(kept)
        self.dropped += len(data) - len(kept)
        return kept


class TextReader:
    """UTF-8 with replacement, safe at any cut."""

    def __init__(self) -> None:
        self._decoder = _Decoder("replace")
        self._parts: list[str] = []

    def feed(self, data: bytes, *, final: bool = False) -> str:
        text = self._decoder.decode(data, final)
        if text:
            self._parts.append(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts)


class ResultReader:
    """Cuts the RESULTS stream into records. ``limit`` bounds one record: a longer one is a protocol violation."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0  # bytes of records that were left out
        self._limit = limit + 64 * 1024  # the record's own JSON around the data
        self._values_left = MAX_VALUES
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Result]:
        """Raises ``RemoteProtocolError``."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _LENGTH:
            length = int.from_bytes(self._buffer[:_LENGTH], "big")
            if length > self._limit:
                raise RemoteProtocolError(f"result of {length} bytes, {self._limit} allowed")
            if len(self._buffer) < _LENGTH + length:
                break
            record = bytes(self._buffer[_LENGTH : _LENGTH + length])
            del self._buffer[: _LENGTH + length]
            if self._affordable(record):
                found.append(decode_result(record))
        return found

    def _affordable(self, record: bytes) -> bool:
        """Whether its values still fit; what does not fit is left out, as output beyond its cap is."""
        values = values_in(record)
        if values > self._values_left:
            self.dropped += len(record)
            return False
        self._values_left -= values
        return True


def decode_result(record: bytes) -> Result:
    """A ``Result`` from a hostile record. Raises ``RemoteProtocolError``."""
    value = load_json(record)
    if not isinstance(value, dict) or set(value) != {"data", "metadata", "main"}:
        raise RemoteProtocolError("result record with other fields than data, metadata, main")
    data, metadata, main = value["data"], value["metadata"], value["main"]
    if not isinstance(data, dict) or not isinstance(metadata, dict) or not isinstance(main, bool):
        raise RemoteProtocolError("result record of the wrong types")
    if len(data) > MAX_MIME_TYPES:
        raise RemoteProtocolError(f"result with {len(data)} representations")
    return Result({mime: _decode_item(mime, item) for mime, item in data.items()}, metadata, main)


def _decode_item(mime: str, item: Any) -> Any:
    if mime in JSON_TYPES or mime.endswith("+json"):
        return item
    if not isinstance(item, str):
        raise RemoteProtocolError(f"{mime!a:.80} is not text")
    if mime not in BINARY_TYPES:
        return item
    try:
        return base64.b64decode(item, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RemoteProtocolError(f"{mime} is not base64") from error
