"""A copy of all that a server must not lose, taken while it runs: keys, paused sandboxes, the journal and its signing key."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from dayfly.errors import InputError
from dayfly.paths import host_error
from dayfly.server.paused import PausedRecords
from dayfly.server.places import Places
from dayfly.server.state import reading

__all__ = ["back_up"]

PAGES = 1000
"""Pages of a database that are copied at once: its writer waits no longer than that takes."""


def back_up(places: Places, target: Path) -> int:
    """Copy what is in ``places.directory`` into the new directory ``target``, which can stand in its place. Returns bytes.

    Raises ``InputError`` if ``target`` is there already, ``OutOfSpace`` and ``HostError``; then nothing is left of it.
    """
    try:
        target.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(f"{target} is there already", remedy="name a new directory") from None
    except OSError as error:
        raise host_error(error, f"cannot make {target}") from error
    try:
        _fill(places, target)
        return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise host_error(error, f"cannot write {target}") from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _fill(places: Places, target: Path) -> None:
    for database in (places.journal, places.state):
        if database.exists():
            _copy_database(database, target / database.name)
    if places.journal_key.exists():
        _copy(places.journal_key, target / places.journal_key.name)
    (target / places.paused.name).mkdir(mode=0o700)
    for sealed in _paused_in(target / places.state.name, places.paused):
        with suppress(FileNotFoundError):  # it goes on meanwhile: then it is not paused any more
            _copy(sealed, target / places.paused.name / sealed.name)


def _paused_in(state: Path, directory: Path) -> Iterator[Path]:
    """The files that the copied database has the keys of."""
    if state.exists():
        yield from (one.sealed.file for one in PausedRecords(state, directory).all())


def _copy_database(source: Path, target: Path) -> None:
    """As of one moment, whoever writes meanwhile (sqlite.org/backup.html)."""
    target.touch(mode=0o600)
    with reading(source), closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other, pages=PAGES)


def _copy(source: Path, target: Path) -> None:
    target.touch(mode=0o600)
    shutil.copyfile(source, target)
