"""Does the journal say today what it said when it was written? Every chain is computed again, every head checked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dayfly.journal.entry import BEGINNING, GENESIS, HEAD, SERVER, Entry, Head, content_digest
from dayfly.journal.signing import Verifier
from dayfly.journal.store import SignedHead, Stored, all_by_chain, open_for_reading, signed_heads

__all__ = ["BEGUN", "Problem", "audit"]

BEGUN = "chain.begun"
"""Kind of the server's entry that names a new chain, so that none can vanish as a whole."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and from which entry on (0: the chain as a whole)."""

    chain: str
    number: int
    what: str


def audit(path: Path, verifier: Verifier, exported: Iterable[SignedHead] = ()) -> list[Problem]:
    """All that is wrong. ``exported`` are heads kept elsewhere: without them, a cut-off end that took its heads along is not
    seen. Raises ``HostError`` if the file cannot be read."""
    with closing(open_for_reading(path)) as connection:
        connection.execute("BEGIN")  # one moment for all of it
        return list(_Audit(connection, verifier, exported).problems())


class _Audit:
    def __init__(self, connection: sqlite3.Connection, verifier: Verifier, exported: Iterable[SignedHead]) -> None:
        self._connection = connection
        self._verifier = verifier
        self._exported = list(exported)
        self._heads = signed_heads(connection, "heads")
        self._beginnings = signed_heads(connection, "beginnings")
        self._begun: set[str] = set()
        self._found: dict[str, Head] = {}  # as computed
        self._wanted = {(one.head.chain, one.head.number): one for one in self._exported}

    def problems(self) -> Iterator[Problem]:
        for chain, rows in groupby(all_by_chain(self._connection), key=lambda row: row.entry.chain):
            yield from self._chain(chain, rows)
        for purpose, table in ((HEAD, self._heads), (BEGINNING, self._beginnings)):
            for chain, signed in table.items():
                if not self._verifier.accepts(signed.head, signed.signature, purpose):
                    yield Problem(chain, signed.head.number, f"the signature of its {purpose} is not this server's")
        yield from self._ends()
        yield from self._against_exported()
        yield from self._contents()

    def _chain(self, chain: str, rows: Iterable[Stored]) -> Iterator[Problem]:
        beginning = self._beginnings.get(chain)
        last = beginning.head if beginning else Head(chain, 0, GENESIS)
        for row in rows:
            yield from self._link(row, last)
            last = row.entry.head
            self._remember(row.entry, last)
        self._found[chain] = last

    def _link(self, row: Stored, last: Head) -> Iterator[Problem]:
        entry = row.entry
        if entry.number != last.number + 1:
            yield Problem(entry.chain, last.number + 1, f"entries {last.number + 1} to {entry.number - 1} are missing")
        elif entry.previous != last.hash:
            yield Problem(entry.chain, entry.number, "it does not follow the entry before")
        if row.hash != entry.hash:
            yield Problem(entry.chain, entry.number, "it was changed: its hash is another")

    def _remember(self, entry: Entry, head: Head) -> None:
        if entry.chain == SERVER and entry.kind == BEGUN:
            self._begun.add(_chain_in(entry.facts))
        wanted = self._wanted.get((entry.chain, entry.number))
        if wanted is not None and wanted.head.hash == head.hash:
            del self._wanted[entry.chain, entry.number]

    def _ends(self) -> Iterator[Problem]:
        """Every chain ends where its signed head says."""
        for chain in sorted({*self._found, *self._heads, *self._begun}):
            beginning = self._beginnings.get(chain)
            end = self._found.get(chain) or (beginning.head if beginning else Head(chain, 0, GENESIS))
            signed = self._heads.get(chain)
            if signed is None:
                yield Problem(chain, 0, "it has no signed head")
            elif signed.head.number > end.number:
                yield Problem(chain, end.number + 1, f"entries {end.number + 1} to {signed.head.number} are missing")
            elif signed.head != end:
                yield Problem(chain, end.number, "it does not end as its signed head says")

    def _against_exported(self) -> Iterator[Problem]:
        for one in self._exported:
            head = one.head
            if not self._verifier.accepts(head, one.signature):
                yield Problem(head.chain, head.number, "the exported head is not signed by this server")
            elif (head.chain, head.number) in self._wanted and not self._retired(head):
                yield Problem(head.chain, head.number, "the entry of an exported head is missing or another")

    def _retired(self, head: Head) -> bool:
        """Whether retention removed its entry, in the open."""
        beginning = self._beginnings.get(head.chain)
        return beginning is not None and beginning.head.number >= head.number

    def _contents(self) -> Iterator[Problem]:
        query = (
            "SELECT entries.chain, entries.number, entries.facts, name, salt, data FROM contents"
            " LEFT JOIN entries ON entries.id = contents.entry ORDER BY contents.entry"
        )
        for chain, number, facts, name, salt, data in self._connection.execute(query):
            if chain is None:
                yield Problem("", 0, f"content {name!a:.80} belongs to no entry")
            elif _digest_in(facts, name) != content_digest(salt, data):
                yield Problem(chain, number, f"content {name!a:.80} was changed")


def _chain_in(facts: str) -> str:
    try:
        return str(json.loads(facts)["chain"])
    except (ValueError, KeyError, TypeError):  # it was changed, which its hash tells
        return SERVER


def _digest_in(facts: str, name: str) -> object:
    try:
        return json.loads(facts)["contents"][name]["sha256"]
    except (ValueError, KeyError, TypeError):
        return None
