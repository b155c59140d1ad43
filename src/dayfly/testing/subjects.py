"""Dayfly's own boundaries as subjects of the contract kit, over places of their own."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from dayfly.boundaries.fake import FakeBoundary
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.limits import Limits
from dayfly.paths import Paths
from dayfly.spec import Image, SandboxSpec
from dayfly.testing.boundary_subject import MakeSpec, Subject
from dayfly.testing.restoring import RestoringBoundary
from dayfly.testing.traces import cgroups_named, mounts_below

__all__ = ["fake_subject", "gvisor_subject", "restored_subject"]


def fake_subject(argument: str) -> Subject:
    """``argument`` is JSON: ``{"agent": PATH, "data": DIRECTORY}``."""
    options = json.loads(argument)
    data = Path(options["data"])
    return Subject(
        boundary=FakeBoundary(trusted_code=True, directory=data),
        make_spec=_spec_maker(Path("/"), Path(options["agent"])),
        traces=lambda: sorted(str(path) for path in data.glob("dayfly-fake-*")),
        factory=("dayfly.testing.subjects:fake_subject", argument),
    )


def gvisor_subject(argument: str) -> Subject:
    """``argument`` is JSON: ``{"agent": PATH, "data": DIRECTORY, "rootfs": DIRECTORY}``."""
    options = json.loads(argument)
    data = Path(options["data"])
    return Subject(
        boundary=GvisorBoundary(Paths(data, data / "run")),
        make_spec=_spec_maker(Path(options["rootfs"]), Path(options["agent"])),
        traces=_GvisorTraces(data),
        factory=("dayfly.testing.subjects:gvisor_subject", argument),
    )


def restored_subject(argument: str) -> Subject:
    """``gvisor_subject``, but every cell was restored from a snapshot, which is kept in ``{"snapshots": DIRECTORY}``."""
    subject = gvisor_subject(argument)
    snapshots = Path(json.loads(argument)["snapshots"])
    return replace(
        subject,
        boundary=RestoringBoundary(subject.boundary, snapshots),
        factory=("dayfly.testing.subjects:restored_subject", argument),
    )


class _GvisorTraces:
    """Directories of cells, mounts below them, and cgroups by the names of all cells that were ever seen here."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen: set[str] = set()

    def __call__(self) -> list[str]:
        cells = self._data / "cells"
        directories = sorted(path.name for path in cells.iterdir()) if cells.is_dir() else []
        self._seen.update(directories)
        return [*directories, *mounts_below(self._data), *cgroups_named({f"dayfly-{name}" for name in self._seen})]


def _spec_maker(rootfs: Path, agent: Path) -> MakeSpec:
    image = Image("test", "sha256:0", os.uname().machine, rootfs)

    def make(**changes: Any) -> SandboxSpec:
        return replace(SandboxSpec(secrets.token_hex(16), image, Limits(), agent), **changes)

    return make
