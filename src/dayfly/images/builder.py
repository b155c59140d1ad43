"""From a recipe to an image: choose, lock, look whether it is built already, unpack, complete, adopt."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dayfly.errors import DayflyError, HostError, ImageNotFound, OutOfSpace
from dayfly.images import rootfs
from dayfly.images.apt import Apt, Deb
from dayfly.images.cache import Cache
from dayfly.images.licences import deb_licence
from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.recipe import Recipe, derive, shipped_recipe
from dayfly.images.sources import host_distribution, own_sources
from dayfly.images.store import Package, Store, read_image
from dayfly.images.tools import need, run
from dayfly.images.warm import RunInside, warm
from dayfly.images.wheels import Target, Wheel, read_metadata, resolve_wheels, unpack_wheel
from dayfly.limits import MIB
from dayfly.paths import Paths, default_paths, make_directory
from dayfly.spec import Image

__all__ = ["FORMAT", "build", "build_derived"]

FORMAT = 1
"""Part of every digest: raised when the same packages would be unpacked into something else."""

# An unpacked image is some four times its packages.
_GROWTH = 4
_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class _Lock:
    """Everything that goes into an image, exactly.

    ``warmed`` is part of it: an image that was built where no sandbox could run is another one, and is built anew where
    one can. (So is byte code, which needs a Python of the image's version on the host.)
    """

    recipe: Recipe
    architecture: str
    debs: tuple[Deb, ...]
    wheels: tuple[Wheel, ...] = ()
    warmed: bool = False

    def record(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "architecture": self.architecture,
            "recipe": self.recipe.digest,
            "compiled": _host_python(self.target.python) is not None,
            "warmed": self.warmed,
            "debs": [asdict(deb) for deb in self.debs],
            "wheels": [{"name": one.name, "version": one.version, "sha256": one.sha256} for one in self.wheels],
        }

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()

    @property
    def target(self) -> Target:
        return Target(_version_of("python3", self.debs), _version_of("libc6", self.debs), self.architecture)


def build(
    recipe: Recipe,
    progress: Progress = silent,
    *,
    paths: Paths | None = None,
    constraints: Sequence[str] = (),
    run_inside: RunInside | None = None,
) -> Image:
    """Build ``recipe`` (or find that its exact packages are built) and let its name point to the result.

    ``constraints`` are exact wheel versions to keep to. Nothing half made is left, however this ends. Raises
    ``HostError``, ``OutOfSpace`` or ``InputError``.
    """
    places = paths or default_paths()
    store = Store(places)
    with store.workspace() as work:
        lock, files = _gather(recipe, work, places, constraints, progress)
        with store.building():
            digest = _built_already(store, lock, run_inside is not None)
            if digest is None:
                digest = _assemble(lock, files, work, progress, run_inside)
                if store.find(digest) is None:
                    store.adopt(work, digest)
            return store.name(recipe.name, digest)


def build_derived(
    base: str,
    add: Sequence[str],
    name: str,
    progress: Progress = silent,
    *,
    paths: Paths | None = None,
    run_inside: RunInside | None = None,
) -> Image:
    """An image like ``base`` (a recipe's or a built image's name) with more packages; see ``recipe.derive``.

    Where ``base`` is built, its wheels keep their versions. Raises what ``build`` raises, and ``ImageNotFound``.
    """
    places = paths or default_paths()
    recipe, constraints = _base(Store(places), base)
    return build(
        derive(recipe, list(add), name), progress, paths=places, constraints=constraints, run_inside=run_inside
    )


def _built_already(store: Store, lock: _Lock, can_warm: bool) -> str | None:
    """The image of ``lock`` in the store, if it is as good as what could be built now."""
    ways = [True] if can_warm and lock.recipe.warm else [True, False]
    digests = [replace(lock, warmed=warmed).digest for warmed in ways if lock.recipe.warm or not warmed]
    return next((digest for digest in digests if store.find(digest) is not None), None)


def _base(store: Store, name: str) -> tuple[Recipe, list[str]]:
    try:
        image = store.resolve(name)
    except ImageNotFound:
        return shipped_recipe(name), []
    recipe = Recipe.model_validate_json((image.rootfs.parent / "recipe.json").read_text("utf-8"))
    return recipe, [f"{wheel['name']}=={wheel['version']}" for wheel in store.lock(name)["wheels"]]


# --- choosing and downloading ---


def _gather(
    recipe: Recipe, work: Path, paths: Paths, constraints: Sequence[str], progress: Progress
) -> tuple[_Lock, list[Path]]:
    architecture = _architecture()
    host = host_distribution()
    apt = Apt(work / "apt", own_sources(host, recipe.suite or host.codename), architecture)
    apt.update(progress)
    debs = tuple(apt.resolve(["?and(?essential,?not(?exact-name(apt)))", "base-files", *recipe.apt]))
    lock = _Lock(recipe, architecture, debs)
    _demand_space(paths, sum(deb.size for deb in debs))
    make_directory(paths.cache)
    files = apt.fetch(debs, Cache(paths.cache / "debs"), progress)
    if recipe.wheels:
        directory = make_directory(work / "wheels")
        pip_cache = make_directory(paths.cache / "pip")
        wheels = resolve_wheels(
            recipe.wheels, lock.target, directory, pip_cache=pip_cache, constraints=constraints, progress=progress
        )
        lock = replace(lock, wheels=tuple(wheels))
        _demand_space(paths, sum(wheel.path.stat().st_size for wheel in wheels))
    return lock, files


def _architecture() -> str:
    found = run([need("dpkg", "dpkg"), "--print-architecture"], what="cannot tell the architecture").strip()
    if found != "amd64":
        raise HostError(f"images for {found} are not supported yet", remedy="use an amd64 machine")
    return found


def _version_of(package: str, debs: Sequence[Deb]) -> tuple[int, int]:
    for deb in debs:
        match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", deb.version)
        if deb.name == package and match:
            return int(match[1]), int(match[2])
    raise HostError(f"the distribution's {package} has no version that is understood", remedy=_OTHER_SOURCES)


_OTHER_SOURCES = "build on Debian or Ubuntu, from the distribution's own packages"


def _demand_space(paths: Paths, packed: int) -> None:
    free = shutil.disk_usage(paths.data).free
    if free < packed * (_GROWTH + 1):
        raise OutOfSpace(
            f"the image needs about {packed * (_GROWTH + 1) // MIB} MiB in {paths.data}, {free // MIB} MiB are free",
            remedy="free some space, or set DAYFLY_DATA to another disk",
        )


# --- putting together ---


def _assemble(lock: _Lock, debs: Sequence[Path], work: Path, progress: Progress, run_inside: RunInside | None) -> str:
    """Make the image in ``work``; return its digest."""
    # From here on nobody else on this host gets in: the image has directories that everybody may write (/tmp, the home),
    # and what another user put there would be in everybody's sandbox. The boundary binds the rootfs for its cells.
    work.chmod(0o700)
    root = make_directory(work / "rootfs")
    rootfs.prepare(root)
    for number, path in enumerate(debs):
        progress(Step(Stage.UNPACK, number, len(debs), lock.debs[number].name))
        rootfs.unpack_deb(path, root)
    site = _unpack_wheels(lock, root, progress)
    progress(Step(Stage.FINISH))
    rootfs.prune(site, lock.recipe.prune)
    rootfs.complete(root)
    progress(Step(Stage.COMPILE))
    _compile(lock.target, root)
    size = rootfs.normalise(root)
    _write_records(lock, work, size)
    lock = replace(lock, warmed=_warm(lock.recipe.warm, work, progress, run_inside))
    _write(work / "lock.json", lock.record())
    shutil.rmtree(work / "apt")
    shutil.rmtree(work / "wheels", ignore_errors=True)
    run([need("sync", "coreutils"), "--file-system", str(work)], what="cannot write the image to disk")
    return lock.digest


def _unpack_wheels(lock: _Lock, root: Path, progress: Progress) -> Path:
    major, minor = lock.target.python
    site = root / f"usr/local/lib/python{major}.{minor}/dist-packages"
    site.mkdir(parents=True, exist_ok=True)
    for number, wheel in enumerate(lock.wheels):
        progress(Step(Stage.WHEELS, number, len(lock.wheels), wheel.name))
        unpack_wheel(wheel.path, site, root / "usr/local", _PYTHON)
    return site


def _compile(target: Target, root: Path) -> bool:
    python = _host_python(target.python)
    if python is None:
        return False
    version = f"python{target.python[0]}.{target.python[1]}"
    libraries = [f"/usr/lib/{version}", "/usr/lib/python3", f"/usr/local/lib/{version}/dist-packages"]
    rootfs.compile_python([python], root, libraries)
    return True


@cache
def _host_python(version: tuple[int, int]) -> str | None:
    """An interpreter of the host whose byte code fits; the image's own is never run on the host."""
    if sys.version_info[:2] == version:
        return sys.executable
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/bin:/usr/local/bin"
    found = shutil.which(f"python{version[0]}.{version[1]}", path=path)
    return (
        found if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0 else None
    )


def _warm(code: str, work: Path, progress: Progress, run_inside: RunInside | None) -> bool:
    """Only a gain in time: an image is complete without, so where no sandbox can run, it is built all the same."""
    if not code or run_inside is None:
        return False
    progress(Step(Stage.WARM))
    try:
        count = warm(read_image(work), code, run_inside)
        progress(Step(Stage.WARM, count, count))
        return True
    except DayflyError as error:
        progress(Step(Stage.WARM, 0, 0, f"left out: {error.message}"))
        return False


def _write_records(lock: _Lock, work: Path, size: int) -> None:
    recipe = lock.recipe
    debs = [Package(deb.name, deb.version, "deb", deb_licence(work / "rootfs", deb.name)) for deb in lock.debs]
    contents = [*debs, *(_wheel_package(wheel) for wheel in lock.wheels)]
    image = {
        "name": recipe.name,
        "architecture": lock.architecture,
        "python": _PYTHON,
        "python_version": ".".join(map(str, lock.target.python)),
        "languages": recipe.languages,
        "environment": recipe.environment,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "size": size,
        "packages": len(contents),
    }
    _write(work / "contents.json", [asdict(package) for package in contents])
    _write(work / "recipe.json", recipe.model_dump(mode="json"))
    _write(work / "image.json", image)


def _wheel_package(wheel: Wheel) -> Package:
    metadata = read_metadata(wheel.path)
    licence = metadata.get("License-Expression") or metadata.get("License") or ""
    if not licence or "\n" in licence or len(licence) > 80:
        classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")]
        licence = classifiers[0].rsplit("::", 1)[-1].strip() if classifiers else licence.split("\n")[0][:80]
    return Package(wheel.name, wheel.version, "wheel", licence)


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    path.chmod(0o644)
