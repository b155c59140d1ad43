"""What works on this machine and what does not, with the remedy. Looks and tries; changes nothing; never hangs."""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from dayfly.boundaries.base import Boundary
from dayfly.errors import DayflyError
from dayfly.images.store import Store
from dayfly.limits import GIB
from dayfly.paths import Paths, default_paths
from dayfly.policy import DEFAULT_IMAGE
from dayfly.runtime import explain_age, find_runsc

__all__ = ["Finding", "examine"]

CHECK_SECONDS = 8.0
"""For one check. A boundary's probe may take 5 s; a file system that hangs takes for ever and is reported as such."""

_NAMESPACE_SECONDS = 3.0  # for `unshare`, which takes milliseconds
_SPACE_WANTED = 3 * GIB  # the default image, its packages and one sandbox's disk
_OLD_DAYS = 365  # from here on the age of a runsc is a finding, not a note

_NAMESPACE_SWITCHES = {
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for runsc and unshare",
    ),
}
_MEMORY_KINDS = frozenset({"tmpfs", "ramfs"})
_TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg", "tar": "tar", "ldconfig": "libc-bin", "unshare": "util-linux"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. ``ok``: it works, it does not, or (``None``) it is a note without judgement."""

    name: str
    ok: bool | None
    message: str
    remedy: str | None = None


Check = Callable[[], Finding | list[Finding]]


def examine(
    boundaries: Sequence[Boundary] = (),
    *,
    paths: Paths | None = None,
    environment: Mapping[str, str] | None = None,
    today: datetime.date | None = None,
) -> list[Finding]:
    """All findings, in a fixed order. ``boundaries`` are asked through their ``probe``. Never raises."""
    env = os.environ if environment is None else environment
    try:
        places = paths or default_paths(env)
    except DayflyError as error:
        return [Finding("data", False, error.message, error.remedy)]
    checks: dict[str, Check] = {
        "python": _python,
        "architecture": _architecture,
        "tools": _tools,
        "extras": _extras,
        "runsc": lambda: _runsc(places, env, today),
        "user namespaces": _user_namespaces,
        "cgroup": _cgroup,
        "kvm": _kvm,
        "images": lambda: _images(places),
        "disk": lambda: _disk(places),
    }
    checks |= {f"boundary {boundary.name}": partial(_boundary, boundary) for boundary in boundaries}
    return _within(checks, CHECK_SECONDS)


def _within(checks: Mapping[str, Check], seconds: float) -> list[Finding]:
    """Run all checks at once; one that does not end in time is a finding itself, and its thread is left behind."""
    answers: dict[str, list[Finding]] = {}

    def run(name: str, check: Check) -> None:
        try:
            answer = check()
        except DayflyError as error:
            answer = Finding(name, False, error.message, error.remedy)
        except Exception as error:  # noqa: BLE001  # a doctor reports what it stumbles over
            answer = Finding(name, False, f"cannot be examined: {type(error).__name__}: {error}")
        answers[name] = answer if isinstance(answer, list) else [answer]

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in checks.items()]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = {
        name: [Finding(name, False, f"did not answer within {seconds:g} s")] for name in checks if name not in answers
    }
    return [finding for name in checks for finding in (answers | late)[name]]


def _python() -> Finding:
    return Finding("python", True, f"Python {platform.python_version()} in {sys.prefix}")


def _architecture() -> Finding:
    machine = platform.machine()
    if platform.system() == "Linux" and machine == "x86_64":
        return Finding("architecture", True, f"Linux {platform.release()} on {machine}")
    message = f"{platform.system()} on {machine}: only Linux on x86_64 is supported yet"
    return Finding("architecture", False, message, "use a Linux machine, or a server on one")


def _tools() -> Finding:
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool, path=_tool_path()) is None]
    if missing:
        return Finding("tools", False, "programs are missing that build images", f"apt-get install {' '.join(missing)}")
    return Finding("tools", True, ", ".join(_TOOLS))


def _extras() -> Finding:
    """What of dayfly is there beside its core. None is needed for a sandbox."""
    found: list[str] = []
    missing: list[str] = []
    for extra in metadata.metadata("dayfly").get_all("Provides-Extra") or []:
        (found if all(map(_installed, _required_by(extra))) else missing).append(extra)
    said = f"installed: {', '.join(sorted(found)) or 'none'}"
    if not missing:
        return Finding("extras", True, said)
    remedy = f"for what they are there for: pip install 'dayfly[{','.join(sorted(missing))}]'"
    return Finding("extras", None, f"{said}; not installed: {', '.join(sorted(missing))}", remedy)


def _required_by(extra: str) -> list[str]:
    parsed = [Requirement(line) for line in metadata.requires("dayfly") or []]
    return [one.name for one in parsed if one.marker is not None and one.marker.evaluate({"extra": extra})]


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _tool_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _runsc(paths: Paths, env: Mapping[str, str], today: datetime.date | None) -> list[Finding]:
    runsc = find_runsc(paths, env)
    abilities = ", ".join(sorted(runsc.features)) or "none beyond those of 2024"
    found = Finding("runsc", True, f"{runsc.path}, version {runsc.version}; newer abilities: {abilities}")
    day = today or datetime.datetime.now(datetime.UTC).date()
    current = runsc.date is not None and (day - runsc.date).days < _OLD_DAYS
    return [found, Finding("runsc age", True if current else None, explain_age(runsc, day))]


def _user_namespaces() -> Finding:
    """Tried, not read from a switch: several can forbid them, and a container's filter as well."""
    name = "user namespaces"
    unshare = shutil.which("unshare", path=_tool_path())
    if unshare is None:
        return Finding(name, False, "unshare is not installed", "apt-get install util-linux")
    try:
        argv = [unshare, "--user", "--map-root-user", "--mount", "true"]
        tried = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_NAMESPACE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(name, False, f"making one did not end within {_NAMESPACE_SECONDS:g} s")
    if tried.returncode == 0:
        return Finding(name, True, "can be made by this user")
    return Finding(name, False, "cannot be made by this user", _namespace_remedy())


def _namespace_remedy() -> str:
    for path, (bad, remedy) in _NAMESPACE_SWITCHES.items():
        if _read(path) == bad:
            return f"as root: {remedy}"
    return "a container's seccomp filter may forbid them: run dayfly outside of it, or allow unshare and clone"


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text("ascii", "replace").strip()
    except OSError:  # this kernel has no such switch
        return None


def _cgroup() -> Finding:
    """Which version, and whether this process may make groups of its own for memory, pids and CPU."""
    own = _own_cgroups(Path("/proc/self/cgroup").read_text("utf-8", "replace"))
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    version = "v2" if unified else "v1" if any(own) else "none"
    root = Path("/sys/fs/cgroup")
    needed = [root / own.get("", "/").lstrip("/")] if unified else [
        root / name / own[name].lstrip("/") for name in ("memory", "pids", "cpu") if name in own
    ]  # fmt: skip
    writable = [path for path in needed if os.access(path, os.W_OK)]
    if needed and writable == needed and (unified or len(needed) == 3):
        return Finding("cgroup", True, f"cgroup {version}: limits can be enforced by the kernel")
    remedy = "run as root, or in a scope of its own: systemd-run --user --scope -p Delegate=yes dayfly ..."
    return Finding(
        "cgroup", None, f"cgroup {version}, not writable here: some limits are watched by dayfly instead", remedy
    )


def _own_cgroups(text: str) -> dict[str, str]:
    """Controller to path, from /proc/self/cgroup; the key of the unified hierarchy is empty."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _kvm() -> Finding:
    there = Path("/dev/kvm").exists()
    return Finding("kvm", None, f"/dev/kvm {'exists' if there else 'does not exist'}; dayfly never uses it")


def _images(paths: Paths) -> Finding:
    infos = Store(paths).list()
    damaged = [info.image.name for info in infos if info.damaged]
    if damaged:
        which = " ".join(damaged)
        return Finding("images", False, f"damaged: {which}", f"dayfly images rm {which}, and build what is missing")
    names = [name for info in infos for name in info.names]
    remedy = f"dayfly images build {DEFAULT_IMAGE}"
    if DEFAULT_IMAGE not in names:
        return Finding("images", False, f"the default image {DEFAULT_IMAGE!r} is not built", remedy)
    return Finding("images", True, ", ".join(names))


def _disk(paths: Paths) -> Finding:
    place = next(path for path in (paths.data, *paths.data.parents) if path.exists())
    free = shutil.disk_usage(place).free
    message = f"{free / GIB:.1f} GiB free in {place}"
    if free < _SPACE_WANTED:
        return Finding("disk", False, message, "free some space, or set DAYFLY_DATA to another disk")
    if _kind_of(place) in _MEMORY_KINDS:
        message += ", which is memory: so is what sandboxes write, and their memory limit ends them for it"
        return Finding("disk", None, message, "set DAYFLY_DATA to a directory on a disk")
    return Finding("disk", True, message)


def _kind_of(place: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The type of the file system in which ``place`` lies, or ``None``: some (btrfs) hide their device."""
    device = place.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.read_text("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == wanted:
            return right.split()[0]
    return None


def _boundary(boundary: Boundary) -> Finding:
    report = boundary.probe()
    facts = ", ".join(f"{key} {value}" for key, value in (report.facts or {}).items())
    message = "; ".join([*report.reasons, *([facts] if facts else [])]) or ("usable" if report.usable else "not usable")
    return Finding(f"boundary {boundary.name}", report.usable, message, "; ".join(report.remedies) or None)
