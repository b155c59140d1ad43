"""A boundary whose every cell was restored: what holds of cells that were started must hold of these."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import Boundary, Cell, Guarantees, ProbeReport
from dayfly.boundaries.snapshot import Snapshot
from dayfly.spec import SandboxSpec
from dayfly.testing.echo import Echo

__all__ = ["RestoringBoundary"]


class RestoringBoundary:
    """Over another boundary; its agent is the stand-in of the contract kit. Snapshots stay in ``directory``."""

    def __init__(self, boundary: Boundary, directory: Path) -> None:
        self.name = boundary.name
        self._boundary = boundary
        self._directory = directory

    @property
    def guarantees(self) -> Guarantees:
        return self._boundary.guarantees

    def probe(self) -> ProbeReport:
        return self._boundary.probe()

    async def open(self, spec: SandboxSpec) -> Cell:
        """Restores what it has a snapshot of: under the same conditions a cell is opened once, and ends with its snapshot."""
        kept = self._directory / _digest(self.identity(spec))
        if not kept.is_dir():
            await self._take(spec, kept)
        return await self._boundary.restore(Snapshot.load(kept), spec)

    async def _take(self, spec: SandboxSpec, kept: Path) -> None:
        cell = await self._boundary.open(spec)
        try:
            await Echo(cell.stream).run("pass")
            snapshot = await cell.snapshot(self._new_directory())
        finally:
            await cell.kill()
        with suppress(FileExistsError):  # several were opened at once; all take the first one's
            snapshot.directory.rename(kept)

    def _new_directory(self) -> Path:
        self._directory.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self._directory)) / "image"

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> Cell:
        return await self._boundary.restore(snapshot, spec)

    def identity(self, spec: SandboxSpec) -> Mapping[str, str]:
        return self._boundary.identity(spec)

    def explain(self, spec: SandboxSpec) -> Mapping[str, Any]:
        return self._boundary.explain(spec)

    def sweep(self) -> int:
        return self._boundary.sweep()


def _digest(identity: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()
