"""Wheels: choosing them with the host's pip for the image's Python, and unpacking them without running anything.

Source distributions are never accepted: building one would run a stranger's code on the host.
"""

from __future__ import annotations

import configparser
import re
import shutil
import stat
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from dayfly.errors import HostError, InputError
from dayfly.images.cache import sha256_of
from dayfly.images.pip import pip_command
from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.tools import ToolFailed, run
from dayfly.limits import GIB, MIB
from dayfly.paths import host_error

__all__ = ["Target", "Wheel", "read_metadata", "resolve_wheels", "unpack_wheel"]

# Of one wheel, unpacked: the largest that people use (GPU frameworks) are below; a zip bomb is not.
_UNPACKED_CAP = 8 * GIB
_FILES_CAP = 200_000
_METADATA_CAP = 4 * MIB
# Rounds of adding requirements that pip overlooked; each finds at least one package, real ones end after one.
_CLOSURE_ROUNDS = 5

_PIP_REMEDY = "check the name and its version; only packages that come as wheels can be used"
_UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|Failed to establish|name resolution|ProxyError|Network is unr"
)

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_SCRIPT = """#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({function}())
"""


@dataclass(frozen=True)
class Target:
    """The Python that the wheels are for. ``python`` such as ``(3, 11)``, ``glibc`` such as ``(2, 36)``."""

    python: tuple[int, int]
    glibc: tuple[int, int]
    architecture: str

    def arguments(self) -> list[str]:
        """pip's arguments that name this target."""
        machine = _MACHINES[self.architecture]
        oldest = 5 if machine == "x86_64" else 17  # manylinux1 and manylinux2014 in the new spelling
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(self.glibc[1], oldest - 1, -1)]
        legacy = ["manylinux2014", "manylinux2010", "manylinux1"] if machine == "x86_64" else ["manylinux2014"]
        platforms = [*tags, *(f"{name}_{machine}" for name in legacy), f"linux_{machine}"]
        version = f"{self.python[0]}.{self.python[1]}"
        return ["--python-version", version, "--implementation", "cp", *(f"--platform={tag}" for tag in platforms)]

    def markers(self) -> dict[str, str]:
        """The environment that requirements' markers are judged in (PEP 508)."""
        version = f"{self.python[0]}.{self.python[1]}"
        return {
            "python_version": version,
            "python_full_version": f"{version}.0",
            "implementation_version": f"{version}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "platform_machine": _MACHINES[self.architecture],
            "platform_system": "Linux",
            "sys_platform": "linux",
            "os_name": "posix",
            "platform_release": "",
            "platform_version": "",
        }


@dataclass(frozen=True)
class Wheel:
    """One wheel file. ``name`` is in its canonical spelling."""

    name: str
    version: str
    sha256: str
    path: Path


def resolve_wheels(
    requirements: Sequence[str],
    target: Target,
    directory: Path,
    *,
    pip_cache: Path,
    constraints: Sequence[str] = (),
    progress: Progress = silent,
) -> list[Wheel]:
    """Download wheels for ``requirements`` and all that they need into ``directory``, sorted by name.

    pip judges markers for the Python that it runs on; what it overlooked for the target is added here. Raises
    ``HostError`` if there is no network, ``InputError`` if there is no such package or no wheel of it.
    """
    wanted = list(requirements)
    for _ in range(_CLOSURE_ROUNDS):
        _download(wanted, target, directory, pip_cache, constraints, progress)
        wheels = [_wheel(path) for path in sorted(directory.glob("*.whl"))]
        missing = _overlooked(requirements, wheels, target)
        if not missing:
            return _needed(requirements, wheels, target)
        wanted += missing
    raise HostError("the wheels' requirements do not come to an end", remedy="name fewer packages")


def _download(
    wanted: Sequence[str],
    target: Target,
    directory: Path,
    pip_cache: Path,
    constraints: Sequence[str],
    progress: Progress,
) -> None:
    lists = {"requirements.txt": wanted, "constraints.txt": constraints}
    for name, lines in lists.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    argv = [*pip_command(), "download", "--only-binary=:all:", "--no-input", "--progress-bar=off", "--no-python-version-warning",
            "--disable-pip-version-check", f"--cache-dir={pip_cache}", f"--dest={directory}", *target.arguments(),
            f"--requirement={directory / 'requirements.txt'}", f"--constraint={directory / 'constraints.txt'}"]  # fmt: skip
    done = 0

    def on_line(line: str) -> None:
        nonlocal done
        match = re.match(r"^\s*(?:Downloading|Using cached|Collecting) (\S+)", line)
        if match:
            done += 1
            progress(Step(Stage.DOWNLOAD, done, None, match[1].rsplit("/", 1)[-1][:80]))

    try:
        run(argv, what="cannot obtain the wheels", remedy=_PIP_REMEDY, on_line=on_line)
    except ToolFailed as error:
        raise _pip_failure(error) from error


def _pip_failure(error: ToolFailed) -> HostError | InputError:
    if _UNREACHABLE.search(error.output):
        return HostError("pip cannot reach its package index", remedy="check the network and pip's configuration")
    unknown = re.search(r"No matching distribution found for ([^\s(]+)", error.output)
    if unknown:
        return InputError(f"there is no wheel of {unknown[1]} for this image's Python", remedy=_PIP_REMEDY)
    return error


def _wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    return Wheel(str(name), str(version), sha256_of(path), path)


def _overlooked(requirements: Sequence[str], wheels: Sequence[Wheel], target: Target) -> list[str]:
    have = {wheel.name for wheel in wheels}
    return sorted(str(need) for need in _walk(requirements, wheels, target) if canonicalize_name(need.name) not in have)


def _needed(requirements: Sequence[str], wheels: Sequence[Wheel], target: Target) -> list[Wheel]:
    """Without what pip took for its own Python only."""
    names = {canonicalize_name(need.name) for need in _walk(requirements, wheels, target)}
    return [wheel for wheel in wheels if wheel.name in names]


def _walk(requirements: Sequence[str], wheels: Sequence[Wheel], target: Target) -> Iterable[Requirement]:
    """All requirements, transitively, that hold for ``target``."""
    by_name = {wheel.name: read_metadata(wheel.path) for wheel in wheels}
    todo = [Requirement(text) for text in requirements]
    seen = set()
    while todo:
        need = todo.pop()
        key = (canonicalize_name(need.name), frozenset(need.extras))
        if key in seen:
            continue
        seen.add(key)
        yield Requirement(
            f"{need.name}{'[' + ','.join(sorted(need.extras)) + ']' if need.extras else ''}{need.specifier}"
        )
        metadata = by_name.get(key[0])
        todo += _requires(metadata, need.extras, target) if metadata is not None else []


def _requires(metadata: Message, extras: Iterable[str], target: Target) -> list[Requirement]:
    found = []
    for text in metadata.get_all("Requires-Dist") or []:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # an old spelling that pip judged itself
            continue
        environments = [{**target.markers(), "extra": extra} for extra in ("", *extras)]
        if requirement.marker is None or any(requirement.marker.evaluate(env) for env in environments):
            found.append(requirement)
    return found


_PACKAGE_REMEDY = "leave the package out, or name another version of it"
_DAMAGED = "try again; check the package index"


def read_metadata(path: Path) -> Message:
    """The METADATA of a wheel file: name, version, licence, requirements. Raises ``HostError``."""
    with _open(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        if not names or archive.getinfo(names[0]).file_size > _METADATA_CAP:
            raise HostError(f"{path.name} is not a wheel: it has no usable METADATA", remedy=_PACKAGE_REMEDY)
        return Parser().parsestr(archive.read(names[0]).decode("utf-8", "replace"))


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise HostError(f"{path.name} is not a wheel: {error}", remedy=_DAMAGED) from error


def unpack_wheel(path: Path, site: Path, prefix: Path, python: str) -> None:
    """Unpack a wheel: packages to ``site``, data and scripts below ``prefix``; console scripts start ``python``.

    Nothing of it is run. Absolute names, ``..``, links and oversized archives are refused. Raises ``HostError``.
    """
    with _open(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) > _FILES_CAP or sum(member.file_size for member in members) > _UNPACKED_CAP:
            raise HostError(f"{path.name} is too large to unpack", remedy=_PACKAGE_REMEDY)
        try:
            for member in members:
                _unpack_member(archive, member, site, prefix, python)
            _write_scripts(archive, prefix / "bin", python)
        except (OSError, zipfile.BadZipFile) as error:
            what = f"cannot unpack {path.name}"
            raise host_error(error, what) if isinstance(error, OSError) else HostError(what, remedy=_DAMAGED) from error


def _unpack_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, site: Path, prefix: Path, python: str) -> None:
    parts = PurePosixPath(member.filename).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    if not parts or parts[0] == "/" or ".." in parts or "\\" in member.filename or kind not in (0, stat.S_IFREG):
        raise HostError(f"a wheel holds an unsafe member: {member.filename!r}", remedy=_PACKAGE_REMEDY)
    destination = _destination(parts, site, prefix)
    if destination is None:
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    is_script = parts[0].endswith(".data") and parts[1] == "scripts"
    with archive.open(member) as source, destination.open("wb") as target:
        if is_script:
            first = source.readline(1024)
            target.write(f"#!{python}\n".encode() if first.startswith(b"#!python") else first)
        shutil.copyfileobj(source, target)
    executable = is_script or (member.external_attr >> 16) & 0o111
    destination.chmod(0o755 if executable else 0o644)


def _destination(parts: tuple[str, ...], site: Path, prefix: Path) -> Path | None:
    if not parts[0].endswith(".data") or len(parts) < 3:
        return site.joinpath(*parts)
    homes = {"purelib": site, "platlib": site, "scripts": prefix / "bin", "data": prefix}
    home = homes.get(parts[1])  # headers are left out: nothing is compiled against them
    return home.joinpath(*parts[2:]) if home else None


def _write_scripts(archive: zipfile.ZipFile, directory: Path, python: str) -> None:
    names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", name)]
    if not names:
        return
    config = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    config.optionxform = str  # type: ignore[assignment,method-assign]  # script names keep their case
    try:
        config.read_string(archive.read(names[0]).decode("utf-8", "replace"))
    except configparser.Error:  # unreadable: the packages work, only their commands are missing
        return
    for name, reference in config["console_scripts"].items() if config.has_section("console_scripts") else ():
        match = re.fullmatch(r"([\w.]+)\s*:\s*([\w.]+)\s*(?:\[.*\])?", reference.strip())
        if match is None or not re.fullmatch(r"[\w.-]+", name) or name in (".", ".."):
            continue
        directory.mkdir(parents=True, exist_ok=True)
        module, function = match.groups()
        text = _SCRIPT.format(python=python, module=module, first=function.split(".")[0], function=function)
        (directory / name).write_text(text, "utf-8")
        (directory / name).chmod(0o755)
