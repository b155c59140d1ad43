"""Which sandboxes are paused, and their keys, in the server's database: for its next start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dayfly.errors import InputError
from dayfly.manager import Paused
from dayfly.policy import AS_KEPT
from dayfly.server.logs import log
from dayfly.server.state import writing

__all__ = ["PausedRecords"]

_records = TypeAdapter(Paused)


class PausedRecords:
    """Implements ``dayfly.manager.Records`` over the file that ``open_state`` opens, of what lies in ``directory``, which may
    have been moved. Blocks for some milliseconds."""

    def __init__(self, path: Path, directory: Path) -> None:
        self._path = path
        self._directory = directory

    def put(self, paused: Paused) -> None:
        record = _records.dump_json(paused).decode()
        with writing(self._path) as state:
            state.execute("INSERT OR REPLACE INTO paused (id, record) VALUES (?, ?)", (paused.id, record))

    def remove(self, sandbox: str) -> None:
        with writing(self._path) as state:
            state.execute("DELETE FROM paused WHERE id = ?", (sandbox,))

    def all(self) -> Iterable[Paused]:
        """Those that this version can read; others are forgotten, and their memory with them."""
        with writing(self._path) as state:
            for sandbox, record in state.execute("SELECT id, record FROM paused").fetchall():
                try:
                    yield self._here(_records.validate_json(record, context=AS_KEPT))
                except (ValidationError, InputError) as error:
                    log.warning("a paused sandbox cannot be read", extra={"facts": {"why": type(error).__name__}})
                    state.execute("DELETE FROM paused WHERE id = ?", (sandbox,))

    def _here(self, paused: Paused) -> Paused:
        sealed = replace(paused.sealed, file=self._directory / paused.sealed.file.name)
        return replace(paused, sealed=sealed)
