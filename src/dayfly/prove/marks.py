"""Marks: by which the host knows again what an attempt has said, and what fills the arguments of probes."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from dayfly.prove.probe import Probe

__all__ = ["TOKEN", "fill", "tells", "token_of"]

TOKEN = "dayfly-proof/"  # noqa: S105 - a mark


def token_of(probe: Probe) -> str:
    """What the attempts of a probe say to whomever they reach."""
    return f"{TOKEN}{hashlib.sha256(probe.id.encode()).hexdigest()[:16]}/"


def fill(value: Any, marks: Mapping[str, Any]) -> Any:
    """``{name}`` in strings becomes that mark's text; a string that is nothing else becomes the mark itself."""
    if isinstance(value, Mapping):
        return {name: fill(one, marks) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(one, marks) for one in value]
    if not isinstance(value, str):
        return value
    if value[:1] == "{" and value[-1:] == "}" and value[1:-1] in marks:
        return marks[value[1:-1]]
    for name, mark in marks.items():
        value = value.replace("{" + name + "}", str(mark))
    return value


def tells(said: str, secret: str) -> bool:
    """Whether the secret is in there, as it is, backwards, in another case, as hexadecimal digits or in base64 at any place of a text."""
    folded = said.casefold()
    plain = (secret, secret[::-1], secret.encode().hex())
    return any(form.casefold() in folded for form in plain) or any(form in said for form in _base64(secret))


def _base64(secret: str) -> set[str]:
    """What it is in the middle of a longer text: by how many bytes come before, without what depends on those around it."""
    return {b64encode(b"\0" * before + secret.encode()).decode()[-(-before * 8 // 6) : -4] for before in range(3)}
