"""What the journal hears of one sandbox's traffic: gathered for a second, so that a flood of it is a few entries."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from dayfly.egress.client import Closed, Requested
from dayfly.manager.ledger import Record
from dayfly.spec import Denial

__all__ = ["Traffic"]

MAX_PATH = 200
"""Characters of a request's path in an entry: enough to know it by, and code that asks for long ones fills no disk."""

GATHER_SECONDS = 1.0
"""From the first of several equal events to their entry. Each one says how many it stands for."""

MOST_ROWS = 50
"""Different entries at once. What is beyond is counted, in one more entry, which names the secrets that were used: nobody uses one
unseen behind a flood of something else."""

ROWS_PER_SECOND = 1.0
"""After that: a loop over names that nobody has heard of is not to fill a disk."""


class Traffic:
    """Writes into ``record``, from when there is one. ``flush`` before the sandbox's last entry. ``purpose``: what it was for, where it
    was not the code inside that asked."""

    def __init__(self, purpose: str = "") -> None:
        self._record: Record | None = None
        self._purpose = {"purpose": purpose} if purpose else {}
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._beyond: Counter[str | None] = Counter()  # by secrets
        self._timer: asyncio.TimerHandle | None = None
        self._budget = float(MOST_ROWS)
        self._since = asyncio.get_running_loop().time()

    def keep_in(self, record: Record) -> None:
        """What was before is gathered already: code that goes on from a snapshot does not wait for the journal."""
        self._record = record
        if self._rows:
            self._flush_later()

    def denied(self, denial: Denial) -> None:
        facts = {"host": denial.host, "port": denial.port, "code": denial.code, "claimed": denial.claimed}
        if denial.began is not None:
            facts["began"] = denial.began
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

    def requested(self, one: Requested) -> None:
        facts = {
            "host": one.host,
            "port": one.port,
            "method": one.method,
            "path": one.path[:MAX_PATH],
            "status": one.status,
            "rule": one.rule,
            "secret": one.secret,
            "address": one.address,
            "code": one.denied.code if one.denied else None,
        }
        self._add("egress.request", facts, count=1)

    def _add(self, kind: str, facts: dict[str, Any], **sums: int) -> None:
        facts |= self._purpose
        key = (kind, *facts.values())
        row = self._rows.get(key)
        if row is not None:
            for name, value in sums.items():
                row[name] += value
        elif len(self._rows) < MOST_ROWS:
            self._rows[key] = facts | sums
        else:
            self._beyond[facts.get("secret")] += sums["count"]
        self._flush_later()

    def _flush_later(self) -> None:
        if self._timer is None and self._record is not None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)

    def flush(self, *, last: bool = False) -> None:
        """Write down what there is, as far as it may be: first what the gateway saw, then claims. Idempotent. With ``last``
        nothing is put off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._record is None:
            return
        rows, self._rows = self._rows, {}
        for (kind, *_), facts in sorted(rows.items(), key=lambda row: row[1].get("claimed") is True):
            if self._may_write():
                self._record.note(kind, facts)
            else:
                self._beyond[facts.get("secret")] += facts["count"]
        if self._beyond and (last or self._may_write()):
            self._record.note("egress.more", self._more())
            self._beyond.clear()
        if self._beyond:
            self._flush_later()

    def _more(self) -> dict[str, Any]:
        secrets = {name: count for name, count in self._beyond.items() if name is not None}
        return {"count": self._beyond.total()} | ({"secrets": secrets} if secrets else {}) | self._purpose

    def _may_write(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._budget = min(float(MOST_ROWS), self._budget + (now - self._since) * ROWS_PER_SECOND)
        self._since = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True
