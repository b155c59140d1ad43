"""JSON text by CPython's own accelerator, without the ``json`` package: importing that costs 17-22 ms inside gVisor.

``json`` wires the same two C functions together in the same way; errors are its ``JSONDecodeError``, a ``ValueError``.
"""

from __future__ import annotations

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Pairs = list[tuple[str, object]]

_BLANK = " \t\n\r"


class _Context:
    """What the scanner reads its options from."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner clears it after each document

    def __init__(self, object_pairs_hook: Callable[[Pairs], object], parse_constant: Callable[[str], object]) -> None:
        self.object_pairs_hook = object_pairs_hook
        self.parse_constant = parse_constant


def decoder(
    object_pairs_hook: Callable[[Pairs], object], parse_constant: Callable[[str], object]
) -> Callable[[str], object]:
    """A function from text to value. It raises ``ValueError`` or ``RecursionError``, whatever the text."""
    scan = _json.make_scanner(_Context(object_pairs_hook, parse_constant))  # type: ignore[arg-type]  # it takes any object with these

    def decode(text: str) -> object:
        start = len(text) - len(text.lstrip(_BLANK))
        try:
            value, end = scan(text, start)
        except StopIteration:
            raise ValueError("no value") from None
        if text[end:].strip(_BLANK):
            raise ValueError("text after the value")
        return value

    return decode


def encode(value: object) -> str:
    """Compact ASCII JSON. Raises ``ValueError`` for NaN and circles, ``TypeError`` for what JSON has not."""
    make = _json.make_encoder({}, _no_default, _json.encode_basestring_ascii, None, ":", ",", False, False, False)
    return "".join(make(value, 0))


def _no_default(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")
