"""What sandboxes asked of the network, out of the journal: equal entries together, no more of them than a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from dayfly.cli.printable import printable
from dayfly.network import Asked

if TYPE_CHECKING:
    from dayfly.journal import Stored

__all__ = ["DENIED", "KINDS", "Sum", "Sums", "asked", "table"]

DENIED, USED, MORE = "egress.denied", "egress.used", "egress.more"
KINDS = (DENIED, USED, MORE)

MOST = 2000
"""Different rows; what is beyond is counted. A flood of names has no news in it."""


@dataclass
class Sum:
    """``code`` is why it was denied, or how a connection ended (``done``, ``reset``, ...). ``rule``: its index in the policy."""

    sandbox: str
    tenant: str
    host: str
    port: int | None
    rule: int | None
    code: str
    denied: bool
    claimed: bool
    began: str | None
    sent: int = 0
    received: int = 0
    count: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        return self.sandbox, self.host, self.port, self.rule, self.code, self.denied, self.claimed, self.began


class Sums:
    """``beyond``: events that are in no row."""

    def __init__(self, rows: Iterable[Stored], most: int = MOST) -> None:
        self._by_key: dict[tuple[object, ...], Sum] = {}
        self._most = most
        self.beyond = 0
        for row in rows:
            self._add(row)

    def __iter__(self) -> Iterator[Sum]:
        return iter(self._by_key.values())

    def _add(self, row: Stored) -> None:
        facts = json.loads(row.entry.facts)
        count = _whole(facts, "count") or 1
        if row.entry.kind == MORE:
            self.beyond += count
            return
        one = _sum(row, facts)
        if one.key not in self._by_key and len(self._by_key) >= self._most:
            self.beyond += count
            return
        kept = self._by_key.setdefault(one.key, one)
        kept.count += count
        kept.sent += _whole(facts, "sent")
        kept.received += _whole(facts, "received")


def _sum(row: Stored, facts: Mapping[str, Any]) -> Sum:
    denied = row.entry.kind == DENIED
    return Sum(
        sandbox=row.entry.chain,
        tenant=row.entry.tenant,
        host=str(facts.get("host")),
        port=facts.get("port"),
        rule=facts.get("rule"),
        code=str(facts.get("code") if denied else facts.get("why")),
        denied=denied,
        claimed=facts.get("claimed") is True,
        began=facts.get("began"),
    )


def _whole(facts: Mapping[str, Any], name: str) -> int:
    value = facts.get(name)
    return value if type(value) is int else 0


def asked(sums: Iterable[Sum]) -> Iterator[Asked]:
    """What was denied, for a suggestion."""
    return (Asked(one.host, one.port, one.code, one.began, one.count) for one in sums if one.denied)


def table(sums: Iterable[Sum]) -> Table:
    """A row for each. ``claimed`` behind a code: only the agent inside says so."""
    made = Table("sandbox", "tenant", "host", "port", "rule", "what", "sent", "received", "count", box=None)
    for one in sums:
        what = f"denied: {one.code}" if one.denied else f"used: {one.code}"
        what += " (claimed)" if one.claimed else ""
        port, rule = ("-" if value is None else str(value) for value in (one.port, one.rule))
        cells = (
            one.sandbox,
            one.tenant or "-",
            _one_line(one.host),
            port,
            rule,
            what,
            *map(str, (one.sent, one.received, one.count)),
        )
        made.add_row(*(Text(printable(cell)) for cell in cells))
    return made


def _one_line(host: str) -> str:
    return host if host.isprintable() else ascii(host)[1:-1]
