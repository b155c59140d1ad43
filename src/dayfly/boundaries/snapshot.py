"""A cell as it was at one moment, on disk: what it can be restored from, and under which conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dayfly.errors import HostError, SnapshotMismatch

__all__ = ["MANIFEST", "Snapshot"]

MANIFEST = "snapshot.json"
"""Written last: a directory without it holds no complete snapshot."""

_VERSION = 1
_MOST_BYTES = 64 * 1024  # of a manifest; it has some hundred


@dataclass(frozen=True)
class Snapshot:
    """``directory`` holds all of the cell's memory and is its maker's to keep secret and to remove, when no restore from it
    is under way. ``identity`` names what must be the same wherever it is restored: condition -> value.

    An image is as hostile as the cell that it was taken of: restore it only as that same kind of cell.
    """

    directory: Path
    identity: Mapping[str, str]

    def save(self) -> None:
        """Write the manifest. Raises ``OSError``."""
        record = {"version": _VERSION, "identity": dict(self.identity)}
        path = self.directory / MANIFEST
        path.touch(mode=0o600)
        path.write_text(json.dumps(record), "utf-8")

    @classmethod
    def load(cls, directory: Path) -> Snapshot:
        """The snapshot in ``directory``. Raises ``HostError`` if there is no whole one of this version."""
        try:
            with (directory / MANIFEST).open("rb") as file:
                record = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError) as error:
            raise HostError(f"no snapshot in {directory}", remedy="take it again") from error
        identity = record.get("identity") if isinstance(record, dict) and record.get("version") == _VERSION else None
        if not isinstance(identity, dict) or not all(isinstance(value, str) for value in identity.values()):
            raise HostError(f"the snapshot in {directory} is of another version", remedy="take it again")
        return cls(directory, identity)

    def require(self, wanted: Mapping[str, str]) -> None:
        """Raise ``SnapshotMismatch`` unless ``wanted`` is its identity."""
        names = sorted(self.identity.keys() | wanted.keys())
        changed = tuple(name for name in names if self.identity.get(name) != wanted.get(name))
        if changed:
            raise SnapshotMismatch(changed)
