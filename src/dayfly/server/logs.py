"""What the server says of itself: one JSON object a line. Never a secret, never code or output, never a caller's text but
what is quoted in ASCII and short."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

__all__ = ["JsonLines", "log", "log_request", "start_logging"]

log = logging.getLogger("dayfly.server")

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by programs; told of only when they fail."""


class JsonLines(logging.Formatter):
    """``extra={"facts": {...}}`` become fields. Of an exception only its type: its text may hold anything."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "event": record.getMessage().strip()[:500]}
        if record.exc_info and record.exc_info[0]:
            told["error"] = record.exc_info[0].__name__
        return json.dumps(told | getattr(record, "facts", {}))


def start_logging(stream: TextIO) -> None:
    """Let dayfly's server and uvicorn write to ``stream``, and nobody else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name, level in (("dayfly.server", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def log_request(scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
    """One answered request: which route, for whom, how it went. Ids of sandboxes are in the path, and stay out."""
    route = getattr(scope.get("route"), "path", None)
    if route in QUIET and status < 400:
        return
    caller = scope.get("state", {}).get("caller")
    facts = {
        "method": scope.get("method", "WEBSOCKET"),
        "route": route,
        "status": status,
        "seconds": round(seconds, 4),
        "address": scope["client"][0] if scope.get("client") else None,
        "tenant": caller.tenant if caller else None,
        "key": caller.key if caller else None,
    }
    log.info("request", extra={"facts": facts})
