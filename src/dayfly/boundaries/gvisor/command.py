"""The command line that starts a cell, as a value. Each step replaces the one before it in the same process.

setpriv: die with dayfly. unshare: a private mount namespace, where what is mounted vanishes with the cell (and for an
ordinary user a user namespace). launch.sh: join the cgroups, mount the root and what else appears inside. Then runsc.

The host's kernel makes these mounts read-only. runsc's own "ro" is kept by the sandbox's kernel only: with the build of
2024, opening a file with O_TRUNC emptied it on the host all the same.
"""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

from dayfly.boundaries.gvisor.abilities import Abilities
from dayfly.boundaries.gvisor.cgroups import entrances
from dayfly.boundaries.gvisor.layout import CONTAINER, Layout
from dayfly.limits import Limits
from dayfly.runtime import Feature
from dayfly.spec import SandboxSpec

__all__ = [
    "LAUNCHER",
    "checkpoint_command",
    "meminfo_file",
    "mount_table",
    "quoted",
    "read_only_flags",
    "runsc_flags",
    "start_command",
]

LAUNCHER = Path(__file__).with_name("launch.sh")


def start_command(abilities: Abilities, layout: Layout, spec: SandboxSpec, image: Path | None = None) -> list[str]:
    """With ``image``, the cell is restored from that directory."""
    tools = abilities.tools
    namespaces = ["--mount"] if abilities.foreign else ["--user", "--map-root-user", "--mount"]
    return [
        *(tools.setpriv, "--pdeathsig", "KILL", "--"),
        *(tools.unshare, *namespaces, "--"),
        *(tools.shell, str(LAUNCHER), *_launcher_options(abilities, layout), "--"),
        *(str(abilities.runsc.path), *runsc_flags(abilities, layout, spec.limits)),
        *(["run"] if image is None else _restore(abilities, image)),
        *(f"--bundle={layout.bundle}", CONTAINER),
    ]


def _restore(abilities: Abilities, image: Path) -> list[str]:
    """runsc would compare the specifications itself, and refuse another host uid. identity.py compares more, and first."""
    lenient = ["--restore-spec-validation=ignore"] if abilities.runsc.has(Feature.RESTORE_VALIDATION) else []
    return [*lenient, "restore", f"--image-path={image}"]


def checkpoint_command(abilities: Abilities, layout: Layout, image: Path) -> list[str]:
    """Has the running cell write itself into the empty directory ``image``, and go on."""
    return [
        *(abilities.tools.setpriv, "--pdeathsig", "KILL", "--"),
        *(str(abilities.runsc.path), f"--root={layout.root}"),
        *("checkpoint", f"--image-path={image}", "--compression=none", "--leave-running", CONTAINER),
    ]


def _launcher_options(abilities: Abilities, layout: Layout) -> Iterator[str]:
    if home := abilities.cgroups:
        if home.may_unbind:
            yield "--bound"
        for entrance in entrances(home.version, sorted(set(home.paths(layout.name).values()))):
            yield from ("--join", str(entrance))
    yield from ("--mount", str(layout.mounts))


def mount_table(layout: Layout, image: Path) -> str:
    """The mounts of a cell as lines of an fstab(5), in their order."""
    rows: list[tuple[str | Path, ...]] = [
        *((source, place, "none", f"bind,{read_only_flags(source)}") for source, place in layout.places.items()),
        (layout.meminfo, "/proc/meminfo", "none", "bind,ro"),
        ("overlay", layout.rootfs, "overlay", f"ro,lowerdir={layout.skeleton}:{image}"),
    ]
    return "".join(" ".join((*map(quoted, row), "0", "0\n")) for row in rows)


def quoted(field: str | Path) -> str:
    """A field of an fstab(5), where blanks and the like are octal."""
    return "".join(chr(byte) if chr(byte) in _PLAIN else f"\\{byte:03o}" for byte in os.fsencode(field))


_PLAIN = frozenset(string.ascii_letters + string.digits + "/._-+=:,@%")


def runsc_flags(abilities: Abilities, layout: Layout, limits: Limits) -> Sequence[str]:
    size = f",size={limits.disk}" if abilities.sizes_disk else ""
    flags = [
        f"--root={layout.root}",
        "--network=none",
        "--platform=systrap",
        "--ignore-cgroups",  # the launcher has joined them
        "--host-uds=none",
        "--host-fifo=none",
        f"--overlay2=root:dir={layout.overlay}{size}",
    ]
    if abilities.runsc.has(Feature.GOFER_NETWORK_NAMESPACE):
        flags.append("--gofer-network-namespace=new")  # the default pins one with a mount, per --root
    if abilities.runsc.has(Feature.HOST_SETTINGS):
        flags.append("--host-settings=ignore")  # dayfly changes nothing on the host, so there is nothing to advise
    return flags


_KEPT = ((os.ST_NOEXEC, "noexec"), (os.ST_NOATIME, "noatime"), (os.ST_NODIRATIME, "nodiratime"))


def read_only_flags(source: Path) -> str:
    """Options for binding ``source`` read-only. What its file system is mounted with already is repeated: a user
    namespace may add such restrictions but not drop them, and the kernel takes what is not repeated for dropped."""
    found = os.statvfs(source).f_flag
    return ",".join(["ro", "nosuid", "nodev", *(name for flag, name in _KEPT if found & flag)])


def meminfo_file(limits: Limits) -> str:
    """What runsc takes the sandbox's MemTotal from: the limit, instead of the host's memory."""
    return f"MemTotal:       {limits.memory // 1024} kB\n"
