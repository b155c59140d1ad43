"""Where the parts of one cell lie on the host, and what of the host it can reach."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dayfly.boundaries.gvisor.skeleton import resolve
from dayfly.errors import HostError, InputError
from dayfly.paths import untraversable
from dayfly.spec import SandboxSpec

__all__ = ["CONTAINER", "Layout", "lay_out"]

CONTAINER = "cell"
"""runsc's name for the container. Its ``--root`` is the cell's own, so the name need not be unique."""

_ID_DIGITS = 16
"""Of the 32 digits of a sandbox's id: 64 random bits are enough on one machine, and keep socket paths short."""

_OPTION_SYNTAX = re.compile(r"[,:\\\n]")
"""What the options of an overlay mount cannot hold without quoting that differs between versions of mount."""

_SOCKET_PATH_MAX = 107
"""Bytes of a Unix socket's path that Linux takes. With a longer one runsc would put its socket into /var/run."""


@dataclass(frozen=True)
class Layout:
    """Paths of one cell. ``places`` maps each host path that appears inside to where it is bound, read-only, for that."""

    cell: Path
    places: dict[Path, Path] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def root(self) -> Path:
        """runsc's ``--root``: its state and its control socket."""
        return self.cell / "root"

    @property
    def bundle(self) -> Path:
        return self.cell / "bundle"

    @property
    def overlay(self) -> Path:
        """Where runsc keeps the writable layer: one unlinked file."""
        return self.cell / "overlay"

    @property
    def skeleton(self) -> Path:
        """What lies over the image."""
        return self.cell / "skeleton"

    @property
    def rootfs(self) -> Path:
        """Where skeleton and image are mounted, in the cell's mount namespace only."""
        return self.cell / "rootfs"

    @property
    def meminfo(self) -> Path:
        """What runsc reads instead of the host's /proc/meminfo, to tell the sandbox how much memory there is."""
        return self.cell / "meminfo"

    @property
    def mounts(self) -> Path:
        """The table of what is mounted in the cell's mount namespace."""
        return self.cell / "mounts"

    @property
    def lease(self) -> Path:
        return self.cell / "lease"

    @property
    def record(self) -> Path:
        return self.cell / "record.json"


def lay_out(cells: Path, spec: SandboxSpec, *, foreign: bool) -> Layout:
    """The layout for ``spec`` under the directory ``cells``. ``foreign``: the cell runs as another host uid than dayfly.

    Raises ``InputError`` for a path that is not there or may not be read by the cell's user, ``HostError`` if ``cells``
    is too long a path.
    """
    cell = cells / spec.id[:_ID_DIGITS]
    layout = Layout(cell)
    if len(bytes(layout.root / f"runsc-{CONTAINER}.sock")) > _SOCKET_PATH_MAX:
        raise HostError(f"{cells} is too long a path for sockets", remedy="set DAYFLY_DATA to a shorter path")
    if foreign and (barred := untraversable(cells)) is not None:
        raise HostError(
            f"sandboxes run as users of their own, and those cannot pass through {barred} to {cells}",
            remedy=f"set DAYFLY_DATA to a directory that everybody can reach, or chmod o+x {barred}",
        )
    if _OPTION_SYNTAX.search(f"{layout.skeleton}{spec.image.rootfs}"):
        raise HostError(f"{cells} has a comma, colon or backslash in it", remedy="set DAYFLY_DATA to a plainer path")
    _check("image", spec.image.rootfs, foreign=False)
    _check("agent", spec.agent, foreign=False)
    if not (spec.image.rootfs / resolve(spec.image.rootfs, spec.image.python).relative_to("/")).exists():
        raise InputError(f"the image {spec.image.name} has no {spec.image.python}", remedy="build the image again")
    for what, path in _sources(spec):
        _check(what, path, foreign)
        layout.places.setdefault(path, cell / "binds" / str(len(layout.places)))
    return layout


def _sources(spec: SandboxSpec) -> Iterator[tuple[str, Path]]:
    """What is mounted from the host and read by the cell's user."""
    for layer in spec.image.layers:
        yield "image layer", layer.source
    for mount in spec.mounts:
        yield "mount source", mount.source


def _check(what: str, path: Path, foreign: bool) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"the {what} cannot be used: {path}: {error.strerror}") from error
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    if foreign and mode & needed != needed:
        raise InputError(
            f"the {what} {path} may not be read by other users, and the sandbox runs as one",
            remedy=f"chmod -R o+rX {path}",
        )
