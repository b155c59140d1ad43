"""The tables of the journal's file, and whether a file has exactly these, with the guards that keep entries as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache

__all__ = ["SCHEMA", "SCHEMA_VERSION", "TABLES", "foreign_tables", "strange"]

SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, chain TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, tenant TEXT NOT NULL,
  kind TEXT NOT NULL, facts TEXT NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL, UNIQUE (chain, number)
) STRICT;
CREATE TABLE contents (
  entry INTEGER NOT NULL, name TEXT NOT NULL, salt BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (entry, name)
) STRICT;
CREATE TABLE heads (chain TEXT PRIMARY KEY, number INTEGER NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
CREATE TABLE beginnings (chain TEXT PRIMARY KEY, number INTEGER NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL) STRICT;
CREATE INDEX entries_by_time ON entries (at);
CREATE INDEX entries_by_tenant ON entries (tenant, id);
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries
  WHEN OLD.number > coalesce((SELECT number FROM beginnings WHERE chain = OLD.chain), 0)
  BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""

TABLES = ("beginnings", "contents", "entries", "heads")

_Named = dict[str, tuple[str, str, str | None]]


def strange(connection: sqlite3.Connection) -> Iterator[str]:
    """What the file's own description has, lacks or says otherwise than ``SCHEMA``: a trigger could change what is written, and
    a view or an index could hide it from one reader and show it to another. Tables of others beside these are their own."""
    expected, found = _expected(), _described(connection)
    for name in sorted({*expected, *found}):
        if name not in found:
            yield f"{_plain(name)} is missing"
        elif name not in expected:
            yield f"{_plain(name)} is no part of it"
        elif found[name] != expected[name]:
            yield f"{_plain(name)} is another"


def foreign_tables(connection: sqlite3.Connection) -> bool:
    """Whether one of the tables is not what was made: then nothing is known of what is in any."""
    found = _described(connection)
    return any(found.get(name) != _expected()[name] for name in TABLES)


def _plain(name: str) -> str:
    return f"{name!a:.80}"


def _described(connection: sqlite3.Connection) -> _Named:
    """By name: kind, table and SQL of all that belongs to the journal's tables."""
    query = "SELECT name, type, tbl_name, sql FROM sqlite_schema"
    return {
        str(name): (str(kind), str(table).lower(), sql)
        for name, kind, table, sql in connection.execute(query)
        if str(table).lower() in TABLES  # SQLite takes names in any case
    }


@cache
def _expected() -> _Named:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        return _described(connection)
