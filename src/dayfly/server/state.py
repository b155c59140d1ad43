"""The server's own small database: who may ask, and what is paused. SQLite in WAL mode, read and written by the server and by ``dayfly keys``.

Durability: ``synchronous = FULL``, so that a revocation that was acknowledged survives a crash of the machine.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dayfly.errors import HostError, OutOfSpace
from dayfly.paths import make_directory

__all__ = ["MIGRATIONS", "open_state", "reading", "writing"]

BUSY_SECONDS = 5.0
"""How long a writer waits for another one; a commit takes some milliseconds."""

MIGRATIONS = (
    """
    CREATE TABLE secrets (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, digest BLOB NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL,
      scopes TEXT NOT NULL, sandbox TEXT, created REAL NOT NULL, expires REAL, revoked REAL
    ) STRICT;
    CREATE INDEX secrets_by_tenant ON secrets (tenant, kind);
    """,
    "CREATE TABLE paused (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;",
)
"""From each version of the schema to the next; ``user_version`` says how many are done."""


def open_state(path: Path) -> sqlite3.Connection:
    """A connection to the file, made and brought up to date where needed. Raises ``HostError``."""
    make_directory(path.parent, 0o700)
    try:
        with suppress(
            FileExistsError
        ):  # one that is there is not opened here: closing it would drop SQLite's own locks
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            _migrate(connection, path)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, OSError) as error:
        raise _translated(error, path) from error
    return connection


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around questions to the file. Raises ``HostError``."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(error, path) from error


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction of its own: all of the block, or nothing. Raises ``HostError``."""
    with closing(open_state(path)) as connection, reading(path), connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")  # whoever else starts now waits, and then finds it done
    version = _version(connection)
    if version > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise HostError(f"{path} was written by a newer dayfly (version {version})", remedy="use that dayfly")
    for number in range(version, len(MIGRATIONS)):
        for statement in MIGRATIONS[number].split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number + 1}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _translated(error: Exception, path: Path) -> HostError:
    message = f"the server's state {path} cannot be used: {error}"
    if "full" in str(error) or getattr(error, "errno", None) == errno.ENOSPC:
        return OutOfSpace(message, remedy="free some space")
    return HostError(message, remedy=f"see whether {path} and its directory can be used")
