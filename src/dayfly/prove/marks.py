"""Marks: by which the host knows again what an attempt has said, and what fills the arguments of probes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from dayfly.prove.probe import Probe

__all__ = ["TOKEN", "fill", "token_of"]

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
