"""JSON out. Text from inside may hold lone surrogates (PEP 383), which only escapes can carry."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from math import isfinite
from typing import Any

from fastapi.responses import Response

from dayfly.errors import DayflyError
from dayfly.server.errors import error_body, error_headers

__all__ = ["Answer", "error_answer", "json_bytes"]


def json_bytes(value: object) -> bytes:
    """Compact ASCII JSON. Frozen values become objects, bytes become base64, and a number that JSON has not (a hostile NaN)
    becomes null."""
    try:
        return _dumped(value)
    except ValueError:
        return _dumped(_finite(value))


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if is_dataclass(value):
        return vars(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"no JSON: {type(value).__name__}")


def _finite(value: object) -> object:
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return _finite(_plain(value))


class Answer(Response):
    """A JSON answer."""

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(json_bytes(content), status, dict(headers or {}))


def error_answer(error: DayflyError) -> Answer:
    """The whole answer that an error is: also to a WebSocket that is not accepted for it."""
    return Answer(error_body(error), error.http_status, error_headers(error))
