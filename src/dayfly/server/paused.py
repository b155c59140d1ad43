"""Which sandboxes are paused, and their keys, in the server's database: for its next start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dayfly.errors import InputError
from dayfly.manager import Paused
from dayfly.server.logs import log
from dayfly.server.state import writing

__all__ = ["PausedRecords"]

_records = TypeAdapter(Paused)


class PausedRecords:
    """Implements ``dayfly.manager.Records`` over the file that ``open_state`` opens. Blocks for some milliseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path

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
                    yield _records.validate_json(record)
                except (ValidationError, InputError) as error:
                    log.warning("a paused sandbox cannot be read", extra={"facts": {"why": type(error).__name__}})
                    state.execute("DELETE FROM paused WHERE id = ?", (sandbox,))
