"""What the server says of itself: one JSON object a line. Never a secret, never code or output, never a caller's text but
what is quoted in ASCII and short."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, cast

__all__ = ["JsonLines", "log", "log_request", "start_logging"]

log = logging.getLogger("dayfly.server")

MOST_WAITING = 10_000
"""Lines that wait for whoever reads the log: some two megabytes."""

END_SECONDS = 2.0

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by programs; told of only when they fail."""


class JsonLines(logging.Formatter):
    """``extra={"facts": {...}}`` become fields. Of an exception only its type: its text may hold anything."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "event": _event(record)}
        if record.exc_info and record.exc_info[0]:
            told["error"] = record.exc_info[0].__name__
        return json.dumps(told | getattr(record, "facts", {}))


def _event(record: logging.LogRecord) -> str:
    """asyncio shows tasks and their exceptions, which hold anything: its first words are enough."""
    said = record.getMessage().strip()[:500]
    return said.splitlines()[0].partition("<")[0].strip() if record.name == "asyncio" and said else said


class _Ahead(QueueHandler):
    """Leaves the writing to another thread. What that cannot keep up with is left out, and counted in the next line."""

    queue: queue.Queue[logging.LogRecord]
    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The line is made here. No other handler has the record, so it need not be a copy."""
        record.msg = self.format(record)
        record.args = record.exc_info = record.exc_text = record.stack_info = None
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        if self.dropped:
            record.msg = f'{record.msg[:-1]}, "lines_dropped": {self.dropped}}}'
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1
        else:
            self.dropped = 0


class _Listener(QueueListener):
    """Its end waits for room in the queue."""

    def enqueue_sentinel(self) -> None:
        cast("queue.Queue[None]", self.queue).put(None)


class _Writer:
    """The other thread's part. No ``logging.Handler``: at exit Python waits for those, and this one may be held up for ever."""

    level = logging.NOTSET

    def __init__(self, write: Callable[[bytes], int | None]) -> None:
        self._write = write

    def handle(self, record: logging.LogRecord) -> None:
        left = record.msg.encode() + b"\n"
        with suppress(OSError):  # nobody reads any more
            while left and (done := self._write(left)):
                left = left[done:]


def start_logging(write: Callable[[bytes], int | None]) -> Callable[[], None]:
    """Have what dayfly's server, uvicorn and asyncio say written with ``write`` (as that of a raw file), which may block: that
    holds up nobody. Returns what ends it: lines that wait are written, if that takes less than ``END_SECONDS``."""
    handler = _Ahead(queue.Queue(MOST_WAITING))
    handler.setFormatter(JsonLines())
    listener = _Listener(handler.queue, cast(logging.Handler, _Writer(write)))
    listener.start()
    for name, level in (("dayfly.server", logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)

    def end() -> None:
        ending = threading.Thread(target=listener.stop, daemon=True)
        ending.start()
        ending.join(END_SECONDS)

    return end


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
    if log.isEnabledFor(logging.INFO):  # by hand: nobody asks from which line of the program it comes
        log.handle(log.makeRecord(log.name, logging.INFO, "", 0, "request", (), None, extra={"facts": facts}))
