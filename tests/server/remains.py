"""What a server holds on this machine, as seen from outside of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dayfly.boundaries.gvisor.cgroups import PREFIX

CELL_DIGITS = 16
"""Of a sandbox's id, in the names of its directory and cgroups."""


@dataclass(frozen=True)
class Remains:
    """Counts of what can leak. ``resident`` is the server's memory in bytes, which may move a little; ``threads`` may become
    more up to what asyncio's pool may have, which grows as it is needed."""

    processes: int
    descriptors: int
    threads: int
    cgroups: int
    mounts: int
    files: int
    resident: int

    @classmethod
    def of(cls, pid: int, data: Path, sandboxes: Iterable[str]) -> Remains:
        """Of the server ``pid`` with this data directory (its TMPDIR too), after it has had these sandboxes."""
        proc = Path("/proc") / str(pid)
        return cls(
            processes=sum(f"{data}/" in line for line in _command_lines()),
            descriptors=len(os.listdir(proc / "fd")),
            threads=len(os.listdir(proc / "task")),
            cgroups=_cgroups({PREFIX + one[:CELL_DIGITS] for one in sandboxes}),
            mounts=(proc / "mountinfo").read_text().count("\n"),
            files=sum(len(names) for _, _, names in os.walk(data)) + len(os.listdir(data / "cells")),
            resident=int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        )

    @property
    def counts(self) -> dict[str, int]:
        """All that must be the same again."""
        return {name: value for name, value in vars(self).items() if name not in ("resident", "threads")}


def _command_lines() -> Iterable[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            yield (process / "cmdline").read_bytes().decode("utf-8", "replace")


def _cgroups(names: set[str]) -> int:
    """Directories of these names in any hierarchy, and so their processes too: one with a process cannot be removed."""
    return sum(name in names for _, below, _ in os.walk("/sys/fs/cgroup") for name in below)
