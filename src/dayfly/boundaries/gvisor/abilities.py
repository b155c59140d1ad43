"""What this machine offers to cells, found out once and then a frozen value."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from dayfly.boundaries.gvisor.cgroup_home import find_home
from dayfly.boundaries.gvisor.cgroups import CgroupHome
from dayfly.boundaries.processes import SYSTEM_PATH
from dayfly.errors import BoundaryUnusable
from dayfly.runtime import Feature, Runsc, find_runsc

__all__ = ["FIRST_UID", "UIDS", "Abilities", "Tools", "detect"]

FIRST_UID = 1_900_000_000
UIDS = 1 << 24
"""Host uids (and gids) of cells that root starts: one per cell. The range is in the part that systemd's table of uids
leaves unused (above its containers, below its foreign uids and below 2**31), has no names, and is wide enough that a
number comes back after years, not hours."""


@dataclass(frozen=True)
class Tools:
    """Absolute paths of the host's programs that start a cell: from util-linux, and a POSIX shell."""

    setpriv: str
    unshare: str
    shell: str = "/bin/sh"


@dataclass(frozen=True)
class Abilities:
    """``foreign``: cells run as a host uid of their own (dayfly is root); otherwise in a user namespace of dayfly's own."""

    runsc: Runsc
    tools: Tools
    foreign: bool
    cgroups: CgroupHome | None
    cpus: frozenset[int]

    def has_cgroup(self, controller: str) -> bool:
        return self.cgroups is not None and controller in self.cgroups.parents

    @property
    def sizes_disk(self) -> bool:
        return self.runsc.has(Feature.OVERLAY_SIZE)

    def visible_cpus(self, cpus: float) -> int:
        """How many CPUs a sandbox with ``limits.cpus`` sees."""
        return min(math.ceil(cpus), len(self.cpus))


def detect() -> Abilities:
    """Raises ``BoundaryUnusable`` (no or too old a runsc, missing tools). Takes some 10 ms."""
    return Abilities(
        runsc=find_runsc(),
        tools=_find_tools(),
        foreign=os.geteuid() == 0 and _maps(FIRST_UID, UIDS),
        cgroups=find_home(),
        cpus=frozenset(os.sched_getaffinity(0)),
    )


def _find_tools() -> Tools:
    found = {name: shutil.which(name, path=SYSTEM_PATH) for name in ("setpriv", "unshare", "mount", "taskset")}
    missing = sorted(name for name, path in found.items() if path is None)
    if missing:
        raise BoundaryUnusable(f"programs are missing: {', '.join(missing)}", remedy="install util-linux and mount")
    return Tools(setpriv=str(found["setpriv"]), unshare=str(found["unshare"]))


def _maps(first: int, count: int) -> bool:
    """Whether these uids exist here: inside somebody's user namespace, "root" may have few."""
    for line in Path("/proc/self/uid_map").read_text("ascii").splitlines():
        inside, _, size = map(int, line.split())
        if inside <= first and first + count <= inside + size:
            return True
    return False
