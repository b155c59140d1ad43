"""Does the journal say today what it said when it was written? Every chain is computed again, every head checked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dayfly.journal.entry import BEGINNING, BEGUN, ERASED, GENESIS, HEAD, RETIRED, SERVER, Head, content_digest
from dayfly.journal.schema import foreign_tables, strange
from dayfly.journal.signing import Verifier
from dayfly.journal.store import SignedHead, Stored, all_by_chain, reading, signed_heads

__all__ = ["Problem", "audit"]

MOST_DAMAGES = 10
"""Damages of the file that are told; there may be one for every row."""


@dataclass(frozen=True)
class Problem:
    """What is wrong, and from which entry on (0: the chain as a whole)."""

    chain: str
    number: int
    what: str


def audit(path: Path, verifier: Verifier, exported: Iterable[SignedHead] = ()) -> list[Problem]:
    """All that is wrong. ``exported`` are heads kept elsewhere: without them, a cut-off end that took its heads along is not
    seen. Raises ``HostError`` if the file cannot be read."""
    with reading(path) as connection:
        connection.execute("BEGIN")  # one moment for all of it
        connection.text_factory = _text
        odd = [Problem("", 0, f"the journal's file is not as dayfly made it: {what}") for what in strange(connection)]
        broken = [Problem("", 0, f"the journal's file is damaged: {what!a:.200}") for what in _damages(connection)]
        if broken or foreign_tables(connection):  # a reader would see other rows than this one: nothing to rely on
            return [*broken, *odd]
        return [*_Audit(connection, verifier, exported).problems(), *odd]


def _text(data: bytes) -> str:
    """What is no UTF-8 is no error here, and no text that was written either."""
    return data.decode("utf-8", "surrogateescape")


def _damages(connection: sqlite3.Connection) -> list[str]:
    """Whether every row is in every index, of its column's type and once, in SQLite's words."""
    found = [str(what) for (what,) in connection.execute(f"PRAGMA integrity_check({MOST_DAMAGES})")]
    return [] if found == ["ok"] else found


class _Audit:
    def __init__(self, connection: sqlite3.Connection, verifier: Verifier, exported: Iterable[SignedHead]) -> None:
        self._connection = connection
        self._verifier = verifier
        self._exported = list(exported)
        self._heads = signed_heads(connection, "heads")
        self._beginnings = signed_heads(connection, "beginnings")
        self._begun: dict[str, int] = {}  # chain -> id of the server's entry that names it
        self._first: dict[str, int] = {}  # chain -> id of its first entry that is left
        self._erased: dict[str, int] = {}  # tenant -> id of the last entry that says so
        self._erased_until = 0  # id of the last of those that were retired
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
        yield from self._missing_contents()

    def _chain(self, chain: str, rows: Iterable[Stored]) -> Iterator[Problem]:
        beginning = self._beginnings.get(chain)
        last = beginning.head if beginning else Head(chain, 0, GENESIS)
        before = 0
        for row in rows:
            yield from self._link(row, last)
            if row.id <= before:  # lists are in the order of ids, which no hash holds
                yield Problem(chain, row.entry.number, "it was put before an earlier entry")
            last, before = row.entry.head, row.id
            self._remember(row, last)
        self._found[chain] = last

    def _link(self, row: Stored, last: Head) -> Iterator[Problem]:
        entry = row.entry
        if entry.number != last.number + 1:
            yield Problem(entry.chain, last.number + 1, f"entries {last.number + 1} to {entry.number - 1} are missing")
        elif entry.previous != last.hash:
            yield Problem(entry.chain, entry.number, "it does not follow the entry before")
        if row.hash != entry.hash:
            yield Problem(entry.chain, entry.number, "it was changed: its hash is another")

    def _remember(self, row: Stored, head: Head) -> None:
        entry = row.entry
        self._first.setdefault(entry.chain, row.id)
        if entry.chain == SERVER and entry.kind == BEGUN:
            self._begun[_chain_in(entry.facts)] = row.id
        if entry.chain == SERVER and entry.kind == ERASED:
            self._erased[entry.tenant] = row.id
        if entry.chain == SERVER and entry.kind == RETIRED:
            self._erased_until = _erased_until(row)
        wanted = self._wanted.get((entry.chain, entry.number))
        if wanted is not None and wanted.head.hash == head.hash:
            del self._wanted[entry.chain, entry.number]

    def _ends(self) -> Iterator[Problem]:
        """Every chain ends where its signed head says, and begins after the server has named it."""
        for chain, named in self._begun.items():
            if chain != SERVER and self._first.get(chain, named) < named:
                yield Problem(chain, 0, "it was put before the server's entry that begins it")
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

    def _missing_contents(self) -> Iterator[Problem]:
        """Those that facts speak of are there, or were erased in the open."""
        query = "SELECT id, chain, number, tenant, facts FROM entries WHERE instr(facts, '\"contents\":') ORDER BY id"
        for entry, chain, number, tenant, facts in self._connection.execute(query):
            if entry > max(self._erased_until, self._erased.get(tenant, 0)):
                there = {name for (name,) in self._connection.execute(_NAMES, (entry,))}
                for name in sorted(_names_in(facts) - there):
                    yield Problem(
                        chain, number, f"content {name!a:.80} is missing, and no entry says that it was erased"
                    )


_NAMES = "SELECT name FROM contents WHERE entry = ?"


def _chain_in(facts: str) -> str:
    try:
        return str(json.loads(facts)["chain"])
    except (ValueError, KeyError, TypeError, RecursionError):  # it was changed, which its hash tells
        return SERVER


def _digest_in(facts: str, name: str) -> object:
    try:
        return json.loads(facts)["contents"][name]["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _erased_until(row: Stored) -> int:
    """Whose erasings were retired is not known any more: up to there, anybody's contents may be gone."""
    try:
        return int(json.loads(row.entry.facts)["erased_until"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):  # a former version's
        return row.id


def _names_in(facts: str) -> set[str]:
    try:
        return set(json.loads(facts).get("contents", {}))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return set()
