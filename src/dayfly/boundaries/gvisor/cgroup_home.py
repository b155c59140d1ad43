"""Finding where on this machine cgroups for cells may be made, by trying.

Version 1: below dayfly's own cgroup in each hierarchy. Version 2: a cgroup with processes cannot have controllers in its
children, so the nearest ancestor is taken in which it works. An ordinary user has such a place if it was delegated to
them (a systemd user unit, or by an administrator's ``chown``).
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dayfly.boundaries.gvisor.cgroups import CONTROLLERS, PREFIX, CellCgroup, CgroupHome, Settings, hand_on

__all__ = ["find_home", "sweep_trials"]

_TRIAL = Settings(memory=64 << 20, cpus=0.5, pids=64)
"""Values that no machine has by default, so that reading them back proves something."""

_TRIAL_SECONDS = 2.0
"""For a shell to write one line; a loaded machine gets a lot more than it needs."""

_TRIAL_NAME = "trial-"
_TRIAL_OLD_SECONDS = 60.0
"""Older ones are nobody's: a trial takes ``_TRIAL_SECONDS`` twice at most."""

_NEEDED_V2 = frozenset({"memory", "cpu", "pids"})


@dataclass(frozen=True)
class _Mount:
    """One line of mountinfo: what part of a hierarchy is mounted where."""

    kind: str
    root: str
    target: Path
    options: frozenset[str]


def find_home(proc: Path = Path("/proc/self")) -> CgroupHome | None:
    """The place for cells' cgroups with every controller that may be used there, or ``None``. Takes some 5 ms."""
    mounts = list(_mounts(proc))
    memberships = dict(_memberships(proc))
    for candidate in (*_version1(mounts, memberships), *_version2(mounts, memberships)):
        usable = {name: path for name, path in candidate.parents.items() if _works(candidate.version, {name: path})}
        if candidate.version == 2 and len(usable) < len(candidate.parents):
            continue
        if usable:
            return CgroupHome(candidate.version, usable)
    return None


def _mounts(proc: Path) -> Iterator[_Mount]:
    for line in (proc / "mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if rest and rest[0] in ("cgroup", "cgroup2"):
            yield _Mount(rest[0], fields[3], Path(fields[4]), frozenset(rest[-1].split(",")))


def _memberships(proc: Path) -> Iterator[tuple[str, str]]:
    """(controller, path) for version 1, ("", path) for version 2."""
    for line in (proc / "cgroup").read_text("utf-8", "surrogateescape").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _place(mount: _Mount, path: str) -> Path | None:
    """The directory of the cgroup ``path``; ``None`` if it lies outside of what is mounted."""
    try:
        return mount.target / Path(path).relative_to(mount.root)
    except ValueError:
        return None


def _version1(mounts: list[_Mount], memberships: dict[str, str]) -> Iterator[CgroupHome]:
    parents: dict[str, Path] = {}
    for controller in CONTROLLERS:
        for mount in mounts:
            if mount.kind == "cgroup" and controller in mount.options and controller in memberships:
                place = _place(mount, memberships[controller])
                if place is not None:
                    parents[controller] = place
    if parents:
        yield CgroupHome(1, parents)


def _version2(mounts: list[_Mount], memberships: dict[str, str]) -> Iterator[CgroupHome]:
    for mount in mounts:
        place = _place(mount, memberships.get("", "/")) if mount.kind == "cgroup2" else None
        while place is not None:
            if _offers(place):
                yield CgroupHome(2, dict.fromkeys(sorted(_NEEDED_V2), place))
            place = place.parent if place != mount.target else None


def _offers(place: Path) -> bool:
    """Whether cgroups made below ``place`` get the controllers; they are switched on there if that may be done."""
    switch = place / "cgroup.subtree_control"
    with suppress(OSError):  # not ours, or it has processes: then as it stands
        missing = _NEEDED_V2 - set(switch.read_text("ascii").split())
        if missing and (place / "cgroup.controllers").is_file() and os.access(place, os.W_OK):
            hand_on(place, missing)
    with suppress(OSError):
        return set(switch.read_text("ascii").split()) >= _NEEDED_V2
    return False


def _works(version: int, parents: dict[str, Path]) -> bool:
    """Make one, set caps, read them back, and have a process join, as a cell will."""
    home = CgroupHome(version, parents)
    sweep_trials(home)
    try:
        group = home.make(f"{_TRIAL_NAME}{secrets.token_hex(4)}", _TRIAL)
    except OSError:
        return False
    try:
        return not group.differing(_TRIAL) and _joins(group)
    except OSError:
        return False
    finally:
        group.remove(_TRIAL_SECONDS)


def sweep_trials(home: CgroupHome) -> None:
    """Remove what a process left that was killed while it tried. Nothing that is young or has members."""
    oldest = time.time() - _TRIAL_OLD_SECONDS
    for parent in set(home.parents.values()):
        for path in parent.glob(f"{PREFIX}{_TRIAL_NAME}*"):
            with suppress(OSError):  # another's, or just removed by another
                if path.stat().st_mtime < oldest:
                    CellCgroup(home.version, home.paths(path.name.removeprefix(PREFIX))).remove()


def _joins(group: CellCgroup) -> bool:
    script = 'for entrance; do echo 0 >"$entrance" || exit 1; done'
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *map(str, group.entrances)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
