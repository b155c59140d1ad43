"""How servers spell a text that they send back: pure.

A *form* is a sequence of places, each with the spellings that may stand there: so every mixture of them is found, such as a path in which
``/`` is escaped and ``+`` is not, inside of JSON.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator

__all__ = ["Form", "forms_of", "pattern"]

Form = tuple[tuple[bytes, ...], ...]

_RUNS = re.compile(r"[A-Za-z0-9_.-]+|.", re.DOTALL)
"""What nobody escapes in one piece, and every other character alone."""


def forms_of(text: str) -> tuple[Form, ...]:
    """As it is or escaped; in base64; in hexadecimal digits. At one place the longer ones come first."""
    raw = text.encode()
    itself: Form = tuple(_place(run[0]) for run in _RUNS.finditer(text))
    others = {*_base64(raw), raw.hex().encode(), raw.hex().upper().encode()} - {b""}
    return (itself, *(((one,),) for one in sorted(others, key=lambda one: (-len(one), one))))


def pattern(form: Form) -> bytes:
    """Of a regular expression."""
    return b"".join(b"(?:" + b"|".join(map(re.escape, place)) + b")" for place in form)


def _place(run: str) -> tuple[bytes, ...]:
    if len(run) > 1 or (run.isascii() and run.isalnum()):
        return (run.encode(),)
    found = {run, *_percent(run), *_json(run), *_html(run)}
    return tuple(sorted((one.encode() for one in found), key=lambda one: (-len(one), one)))


def _percent(character: str) -> Iterator[str]:
    """Of a URL, also of one that is a part of another."""
    upper = "".join(f"%{byte:02X}" for byte in character.encode())
    for one in (upper, upper.lower()):
        yield from (one, one.replace("%", "%25"))
    if character == " ":
        yield "+"


def _json(character: str) -> Iterator[str]:
    """Also for inside of pages, and JSON in JSON."""
    units = [json.dumps(character)[1:-1]]
    units += ["".join(f"\\u{unit:04x}" for unit in _utf16(character)), "\\" + character]
    for one in units:
        yield from (one, json.dumps(one)[1:-1])
        upper = re.sub(r"\\u[0-9a-f]{4}", lambda escape: "\\u" + escape[0][2:].upper(), one)
        yield from (upper, json.dumps(upper)[1:-1])


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-be")
    return [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]


def _html(character: str) -> Iterator[str]:
    yield from (html.escape(character), "&apos;" if character == "'" else character)
    number = ord(character)
    yield from (f"&#{number};", f"&#{number:03};", f"&#x{number:x};", f"&#x{number:X};", f"&#X{number:X};")


def _base64(raw: bytes) -> Iterator[bytes]:
    """Whole, and amid something longer: there its first and last letter belong to the neighbours, too."""
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(raw)
        yield from (whole, whole.rstrip(b"="))
        for before in range(3):
            text = encode(bytes(before) + raw)
            yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
