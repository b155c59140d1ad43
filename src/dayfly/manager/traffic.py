"""What the journal hears of one sandbox's traffic: gathered for a second, so that a flood of it is a few entries."""

from __future__ import annotations

import asyncio
from typing import Any

from dayfly.egress.client import Closed
from dayfly.manager.ledger import Record
from dayfly.spec import Denial

__all__ = ["Traffic"]

GATHER_SECONDS = 1.0
"""From the first of several equal events to their entry. Each one says how many it stands for."""

MOST_ROWS = 50
"""Different entries a second. What is beyond is counted, in one more entry."""


class Traffic:
    """Writes into ``record``. ``flush`` before the sandbox's last entry."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._beyond = 0
        self._timer: asyncio.TimerHandle | None = None

    def denied(self, denial: Denial) -> None:
        facts = {"host": denial.host, "port": denial.port, "code": denial.code, "claimed": denial.claimed}
        self._add("egress.denied", facts, count=denial.count)

    def closed(self, closed: Closed) -> None:
        facts = {
            "host": closed.host,
            "port": closed.port,
            "rule": closed.rule,
            "address": closed.address,
            "why": closed.why,
        }
        self._add("egress.used", facts, count=1, sent=closed.sent, received=closed.received)

    def _add(self, kind: str, facts: dict[str, Any], **sums: int) -> None:
        key = (kind, *facts.values())
        row = self._rows.get(key)
        if row is not None:
            for name, value in sums.items():
                row[name] += value
        elif len(self._rows) < MOST_ROWS:
            self._rows[key] = facts | sums
        else:
            self._beyond += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)

    def flush(self) -> None:
        """Write down what there is. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, {}
        for (kind, *_), facts in rows.items():
            self._record.note(kind, facts)
        beyond, self._beyond = self._beyond, 0
        if beyond:
            self._record.note("egress.more", {"count": beyond})
