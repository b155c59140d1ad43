"""The journal's file: SQLite in WAL mode. One process writes at a time; any number read.

Durability: a commit returns when the log is on the disk (``synchronous = FULL``), so what was acknowledged survives a
crash of the process and of the machine. Entries cannot be changed, and only be removed up to a signed beginning.
"""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayfly.errors import HostError, OutOfSpace
from dayfly.journal.entry import ENDED, OPENED, PAUSED, RESUMED, SERVER, Entry, Head
from dayfly.journal.schema import SCHEMA, SCHEMA_VERSION, strange

__all__ = ["VERIFY", "Content", "Reader", "SignedHead", "Stored", "open_for_writing", "reading", "translate"]

VERIFY = "dayfly journal verify"

BUSY_SECONDS = 5.0
"""How long a commit waits for a reader that blocks it, as a backup may."""


@dataclass(frozen=True)
class SignedHead:
    head: Head
    signature: bytes

    def as_json(self) -> dict[str, Any]:
        """Bytes in hex."""
        head = self.head
        return {"chain": head.chain, "number": head.number, "hash": head.hash.hex(), "signature": self.signature.hex()}


@dataclass(frozen=True)
class Content:
    """Bytes that an entry's facts have the digest of; may be erased."""

    name: str
    salt: bytes
    data: bytes


@dataclass(frozen=True)
class Stored:
    """An entry as it stands in the file, with the hash that was written beside it."""

    id: int
    entry: Entry
    hash: bytes

    def as_json(self) -> dict[str, Any]:
        """Times in seconds since 1970, bytes in hex."""
        one = self.entry
        return {
            "id": self.id,
            "chain": one.chain,
            "number": one.number,
            "at": one.at / 1e9,
            "tenant": one.tenant,
            "kind": one.kind,
            "facts": json.loads(one.facts),
            "hash": self.hash.hex(),
            "previous": one.previous.hex(),
        }


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Makes the file where there is none. Raises ``HostError``."""
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        _prepare(connection, path)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    elif version == SCHEMA_VERSION:
        connection.execute("CREATE INDEX IF NOT EXISTS entries_by_tenant ON entries (tenant, id)")
    else:
        raise HostError(
            f"{path} is of version {version}, this dayfly writes {SCHEMA_VERSION}", remedy="use a newer dayfly"
        )
    for what in strange(connection):  # such as a trigger, which would change what is written
        raise HostError(f"{path} is not as dayfly made it: {what}", remedy=VERIFY)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for a while. Raises ``HostError``, also for what SQLite finds damaged on the way."""
    with closing(open_for_reading(path)) as connection:
        try:
            yield connection
        except sqlite3.Error as error:
            raise translate(error, path) from error


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Raises ``HostError``."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
        connection.execute("SELECT count(*) FROM heads")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return connection


def translate(error: Exception, path: Path) -> HostError:
    """The clear error for what SQLite or the system refused."""
    if isinstance(error, HostError):
        return error
    message = f"the journal {path} cannot be used: {error}"
    if "full" in str(error) or getattr(error, "errno", None) == errno.ENOSPC:
        return OutOfSpace(message, remedy="free some space")
    return HostError(message, remedy=f"see whether {path} and its directory can be used")


class Reader:
    """Reads a journal that may be written meanwhile. Each method sees one moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(
        self,
        chain: str | None = None,
        *,
        after: int = 0,
        tenant: str | None = None,
        kinds: Sequence[str] = (),
        since: int = 0,
    ) -> Iterator[Stored]:
        """Of one chain or of all, of one tenant or of all, of some kinds or of all, in the order of writing, with an id above
        ``after``, written at ``since`` (nanoseconds since 1970) or later."""
        wanted = {name: value for name, value in (("chain", chain), ("tenant", tenant)) if value is not None}
        which = "".join(f" AND {name} = ?" for name in wanted)
        if kinds:
            which += f" AND kind IN ({', '.join('?' * len(kinds))})"
        query = f"SELECT {_COLUMNS} FROM entries WHERE id > ? AND at >= ?{which} ORDER BY id"  # noqa: S608 - constants
        with reading(self._path) as connection:
            for row in connection.execute(query, (after, since, *wanted.values(), *kinds)):
                yield stored(row)

    def contents(self, entry: int) -> list[Content]:
        """What is left of an entry's contents."""
        with reading(self._path) as connection:
            query = "SELECT name, salt, data FROM contents WHERE entry = ? ORDER BY name"
            return [Content(*row) for row in connection.execute(query, (entry,))]

    def unended(self) -> list[Stored]:
        """The openings of sandboxes of which no end is written: those that live, or that the server's own end took along."""
        query = (
            f"SELECT {_COLUMNS} FROM entries WHERE kind = '{OPENED}'"  # noqa: S608 - constants
            f" AND chain NOT IN (SELECT chain FROM entries WHERE kind = '{ENDED}') ORDER BY id"
        )
        with reading(self._path) as connection:
            return [stored(row) for row in connection.execute(query)]

    def paused(self) -> set[str]:
        """The chains of sandboxes that were paused and not resumed, ended ones too."""
        query = f"SELECT chain, kind, MAX(id) FROM entries WHERE kind IN ('{PAUSED}', '{RESUMED}') GROUP BY chain"  # noqa: S608 - constants
        with reading(self._path) as connection:  # SQLite gives the kind of the row with the maximum
            return {chain for chain, kind, _ in connection.execute(query) if kind == PAUSED}

    def cpu_seconds_since(self, moment: int) -> dict[str, float]:
        """What sandboxes that ended or were paused at ``moment`` (nanoseconds since 1970) or later have used since they were
        last paused before it, by tenant."""
        query = f"""
            SELECT tenant, SUM(used) FROM (
              SELECT tenant, MAX(CASE WHEN at >= :moment THEN json_extract(facts, '$.cpu_seconds') END)
                - COALESCE(MAX(CASE WHEN at < :moment THEN json_extract(facts, '$.cpu_seconds') END), 0) AS used
              FROM entries WHERE kind IN ('{ENDED}', '{PAUSED}') GROUP BY tenant, chain
            ) GROUP BY tenant
        """  # noqa: S608 - constants
        with reading(self._path) as connection:
            return {tenant: used for tenant, used in connection.execute(query, {"moment": moment}) if used}

    def last(self, count: int) -> list[Stored]:
        """The last entries of all chains, the latest at the end."""
        with reading(self._path) as connection:
            query = f"SELECT {_COLUMNS} FROM entries ORDER BY id DESC LIMIT ?"  # noqa: S608 - constants
            return [stored(row) for row in connection.execute(query, (count,))][::-1]

    def heads(self, tenant: str | None = None) -> list[SignedHead]:
        """Where every chain stands, to be kept elsewhere; or those of a tenant's sandboxes."""
        with reading(self._path) as connection:
            found = signed_heads(connection, "heads")
            if tenant is None:
                return list(found.values())
            rows = connection.execute("SELECT DISTINCT chain FROM entries WHERE tenant = ?", (tenant,))
            return [found[chain] for (chain,) in rows if chain in found and chain != SERVER]


_COLUMNS = "id, chain, number, at, tenant, kind, facts, previous, hash"


def all_by_chain(connection: sqlite3.Connection) -> Iterator[Stored]:
    """In the order of their numbers, which is the one they were written in."""
    for row in connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY chain, number"):  # noqa: S608 - constants
        yield stored(row)


def stored(row: tuple[int, str, int, int, str, str, str, bytes, bytes]) -> Stored:
    return Stored(row[0], Entry(*row[1:8]), row[8])


def signed_heads(connection: sqlite3.Connection, table: str) -> dict[str, SignedHead]:
    """From ``heads`` or ``beginnings``, by chain."""
    rows = connection.execute(f"SELECT chain, number, hash, signature FROM {table}")  # noqa: S608 - one of two
    return {chain: SignedHead(Head(chain, number, digest), signature) for chain, number, digest, signature in rows}
