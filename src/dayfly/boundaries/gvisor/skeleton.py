"""What lies over the image in one cell, read-only: the agent, files of /etc that are the cell's own, and mount points.

The host's kernel puts the skeleton over the image (overlayfs, both read-only) in the cell's mount namespace. So runsc,
which makes missing mount points itself, never writes into an image, and what is per cell costs no mount of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from dayfly.errors import InputError
from dayfly.spec import SandboxSpec

__all__ = [
    "AGENT_TARGET",
    "BOOT",
    "BOOT_TARGET",
    "build_skeleton",
    "etc_files",
    "mount_point",
    "mount_targets",
    "resolve",
]

AGENT_TARGET = "/.dayfly/agent.pyz"
BOOT_TARGET = "/.dayfly/boot.py"

BOOT = Path(__file__).with_name("boot.py")

_NOT_EMPTY = "/tmp/.dayfly"  # noqa: S108 - inside. runsc would put a tmpfs without a size over a /tmp that it finds empty

_MAX_LINKS = 40
"""Symbolic links followed in one path: Linux's own number."""


def build_skeleton(skeleton: Path, spec: SandboxSpec, machine_id: str) -> None:
    """Fill the new directory ``skeleton``. Raises ``InputError`` for a target that cannot be one, ``OSError``."""
    image = spec.image.rootfs
    _directory(skeleton, image, "/")
    _put(spec.agent, _parent(skeleton, image, AGENT_TARGET))
    _put(BOOT, _parent(skeleton, image, BOOT_TARGET))
    for name, text in etc_files(spec.hostname, machine_id).items():
        path = _parent(skeleton, image, f"/etc/{name}")
        path.write_text(text, "utf-8")
        path.chmod(0o444)
    _directory(skeleton, image, _NOT_EMPTY)
    for target, source in mount_targets(spec).items():
        mount_point(skeleton, image, target, source)


def _put(source: Path, target: Path) -> None:
    """The same file, so that all cells share it in memory; a copy where that cannot be, as across file systems."""
    try:
        if source.stat().st_mode & stat.S_IROTH:
            os.link(source, target)
            return
    except OSError:  # another file system, or a file of somebody else's
        pass
    shutil.copyfile(source, target)
    target.chmod(0o444)


def mount_targets(spec: SandboxSpec) -> Mapping[str, Path]:
    """What of the host appears inside, by where; parents before what is below them."""
    found = {layer.target: layer.source for layer in spec.image.layers}
    found |= {mount.target: mount.source for mount in spec.mounts}
    return dict(sorted(found.items()))


def etc_files(hostname: str, machine_id: str) -> Mapping[str, str]:
    """Files of /etc that are this cell's own, by name. Nothing of the host's shows in them."""
    return {
        "hostname": f"{hostname}\n",
        "hosts": f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {hostname}\n",
        "resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",  # nobody listens: fails at once
        "machine-id": f"{machine_id}\n",
    }


def mount_point(skeleton: Path, image: Path, target: str, source: Path) -> None:
    """Make in the skeleton what ``source`` is mounted on at ``target``. Raises ``InputError``, ``OSError``."""
    if source.is_dir():
        _directory(skeleton, image, target)
        return
    path = _parent(skeleton, image, target)
    if (image / path.relative_to(skeleton)).is_dir():
        raise InputError(f"the mount target {target} is a directory in the image, and {source} is none")
    path.touch()


def _parent(skeleton: Path, image: Path, target: str) -> Path:
    """Where a file for ``target`` goes in the skeleton; the directory above it is made."""
    above = PurePosixPath(target).parent
    return _directory(skeleton, image, str(above)) / PurePosixPath(target).name


def _directory(skeleton: Path, image: Path, target: str) -> Path:
    """Make the directory ``target`` and those above it in the skeleton, with the modes that they have in the image."""
    place = skeleton
    for part in resolve(image, target).parts[1:]:
        place = place / part
        mode = _mode(image / place.relative_to(skeleton), target)
        with suppress(FileExistsError):
            place.mkdir()
            place.chmod(mode)
    return place


def _mode(path: Path, target: str) -> int:
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return 0o755
    except NotADirectoryError:
        found = stat.S_IFREG
    if not stat.S_ISDIR(found):
        raise InputError(f"the mount target {target} lies below a file of the image")
    return stat.S_IMODE(found)


def resolve(image: Path, target: str) -> PurePosixPath:
    """``target`` without symbolic links, as the image has them; never out of the image. Raises ``InputError``."""
    left = [part for part in PurePosixPath(target).parts if part != "/"][::-1]
    done: list[str] = []
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            done = done[:-1]
            continue
        try:
            link = os.readlink(image.joinpath(*done, part))  # noqa: PTH115 - the text, not a path
        except OSError:  # no link, or not there: stays as it is
            done.append(part)
            continue
        links += 1
        if links > _MAX_LINKS:
            raise InputError(f"too many symbolic links on the way to {target} in the image")
        pieces = PurePosixPath(link).parts
        if link.startswith("/"):
            done, pieces = [], pieces[1:]
        left += pieces[::-1]
    return PurePosixPath("/", *done)
