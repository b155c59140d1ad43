"""What the journal of a sandbox hears, in memory."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from dayfly.manager.ledger import Ledger, Record

__all__ = ["Heard"]


class Heard:
    """An ``Appender``. ``entries``: (kind, facts), in order."""

    failure = None

    def __init__(self) -> None:
        self.entries: list[tuple[str, dict[str, Any]]] = []

    def append(self, chain: str, kind: str, facts: Any, **_: object) -> Future[None]:
        self.entries.append((kind, dict(facts)))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def record(self, sandbox: str) -> Record:
        return Record(Ledger(self), sandbox, "")

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for one, facts in self.entries if one == kind]
