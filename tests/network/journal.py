"""The journal of one sandbox, and what was written there."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from dayfly.journal import Journal, Reader
from dayfly.manager.ledger import Ledger, Record
from tests.manager.house import SIGNER

__all__ = ["Heard"]


class Heard:
    """A journal in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "journal.db"
        self._journal = Journal(self._path, SIGNER)

    def record(self, sandbox: str) -> Record:
        return Record(Ledger(self._journal), sandbox, "")

    @cached_property
    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """(kind, facts), in order. Nothing is written any more."""
        self._journal.close()
        return [(row.entry.kind, json.loads(row.entry.facts)) for row in Reader(self._path).entries()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for one, facts in self.entries if one == kind]

    def has(self, text: str) -> bool:
        """Anywhere in its file."""
        assert self.entries
        return text.encode() in self._path.read_bytes()
