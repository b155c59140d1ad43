"""A boundary whose every cell was restored: what holds of cells that were started must hold of these."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import Boundary, Cell, Guarantees, ProbeReport
from dayfly.boundaries.snapshot import Snapshot
from dayfly.spec import SandboxSpec
from dayfly.testing.echo import Echo

__all__ = ["RestoringBoundary"]


class RestoringBoundary:
    """Over another boundary; its agent is the stand-in of the contract kit. Images stay in ``directory``."""

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
        """Opens a cell, takes a snapshot of it, ends it and restores that under the same specification."""
        cell = await self._boundary.open(spec)
        try:
            await Echo(cell.stream).run("pass")
            snapshot = await cell.snapshot(self._new_directory())
        finally:
            await cell.kill()
        return await self._boundary.restore(snapshot, spec)

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
