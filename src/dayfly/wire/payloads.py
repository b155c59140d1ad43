"""JSON values to and from bytes that a hostile peer may have written.

Law: what ``load_json`` returns is small, shallow and plain: at most ``MAX_ITEMS`` values, ``MAX_DEPTH`` levels, integers of
64 bits, finite floats, no key twice. ``dump_json`` refuses to write anything else, so that the culprit is always the
writer. Lone surrogates (undecodable file names, PEP 383) survive as escapes in both directions.

It uses CPython's own accelerator and not the ``json`` package around it: importing that costs 17-22 ms inside gVisor.
"""

from __future__ import annotations

import _json

from dayfly.wire.errors import RemoteProtocolError

MAX_DEPTH = 64
"""Levels of nesting. Far above what anybody writes, far below where recursion ends, here and in whoever reads it next."""

MAX_ITEMS = 1 << 18
"""Values in one text. A value takes up to 120 bytes of memory for 3 bytes of text: this caps it at some 30 MiB."""

MIN_INT, MAX_INT = -(1 << 63), (1 << 64) - 1
"""Signed and unsigned 64 bits: what other languages, databases and system calls can hold."""

_MAX_NUMBER = (
    40  # characters; no 64-bit number or float's repr is longer, and converting long ones takes quadratic time
)
_LONG_NUMBER = b"0" * 19  # as many digits may be beyond 64 bits; all digits look alike after:
_ALIKE = bytes.maketrans(b"123456789", b"000000000")


def dump_json(value: object, items: int = MAX_ITEMS) -> bytes:
    """Compact ASCII JSON. Raises ``ValueError``, ``TypeError`` or ``RecursionError`` for what cannot be written."""
    make = _json.make_encoder({}, _no_default, _json.encode_basestring_ascii, None, ":", ",", False, False, False)
    payload = "".join(make(value, 0)).encode("ascii")
    _measure(payload, items)
    if _LONG_NUMBER in payload.translate(_ALIKE):
        _parse(payload.decode("ascii"))
    return payload


def load_json(payload: bytes, items: int = MAX_ITEMS) -> object:
    """A JSON value from hostile bytes. Raises ``RemoteProtocolError`` and nothing else."""
    try:
        _measure(payload, items)
        return _parse(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"not JSON: {type(error).__name__}") from None


def _measure(payload: bytes, items: int) -> None:
    """Refuse too many values or levels before any is made. Marks inside of strings do not count."""
    if _marks(payload) <= MAX_DEPTH:
        return  # the common case: too few for either
    if _too_many_strings(payload, items):
        raise ValueError("too many strings")
    outside = _outside(payload)
    if _marks(outside) > items:
        raise ValueError("too many values")
    if outside.count(b"[") + outside.count(b"{") > MAX_DEPTH and _depth(outside) > MAX_DEPTH:
        raise ValueError("too deep")


def values_in(payload: bytes) -> int:
    """How many values a JSON text has, about: commas, lists and objects outside of strings. Above ``MAX_ITEMS`` at least
    one more than that."""
    if _marks(payload) <= MAX_DEPTH:
        return _marks(payload)
    return MAX_ITEMS + 1 if _too_many_strings(payload, MAX_ITEMS) else _marks(_outside(payload))


def _too_many_strings(payload: bytes, items: int) -> bool:
    """More than values and keys: then do not even split them."""
    return _unescaped(payload).count(b'"') > 4 * items + 4


def _unescaped(payload: bytes) -> bytes:
    return payload.replace(b"\\\\", b"").replace(b'\\"', b"")


def _outside(payload: bytes) -> bytes:
    """What is not in strings."""
    return b"".join(_unescaped(payload).split(b'"')[::2])


def _marks(payload: bytes) -> int:
    return payload.count(b",") + payload.count(b"[") + payload.count(b"{")


def _depth(outside: bytes) -> int:
    deepest = level = 0
    for byte in outside.translate(None, _NOT_BRACKETS):
        level += 1 if byte in _OPENING else -1
        if level > deepest:
            deepest = level
    return deepest


_OPENING = b"[{"
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _parse(text: str) -> object:
    start = len(text) - len(text.lstrip(_BLANK))
    try:
        value, end = _scan(text, start)
    except StopIteration:
        raise ValueError("no value") from None
    if text[end:].strip(_BLANK):
        raise ValueError("text after the value")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _int(text: str) -> int:
    number = int(text) if len(text) <= _MAX_NUMBER else MAX_INT + 1
    if not MIN_INT <= number <= MAX_INT:
        raise ValueError("integer beyond 64 bits")
    return number


def _float(text: str) -> float:
    number = float(text) if len(text) <= _MAX_NUMBER else _INFINITE
    if number in (_INFINITE, -_INFINITE):
        raise ValueError("float out of range")
    return number


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _no_default(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")


class _Context:
    """What the scanner reads its options from, as it does from ``json.JSONDecoder``."""

    strict = True
    object_hook = None
    object_pairs_hook = staticmethod(_unique)
    parse_int = staticmethod(_int)
    parse_float = staticmethod(_float)
    parse_constant = staticmethod(_no_constant)
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner clears it after each document


_BLANK = " \t\n\r"
_INFINITE = float("inf")
_scan = _json.make_scanner(_Context())  # type: ignore[arg-type]  # it takes any object with these attributes
