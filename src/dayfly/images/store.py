"""The store: built images by digest, names that point to them, and leases that keep them while they are used.

An image appears whole, by one rename, or not at all, and is never written to afterwards. Every directory in the making
(or on its way out) has a ``lease`` file locked by its maker: whoever finds one unlocked may remove it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayfly.errors import HostError, ImageNotFound, InputError
from dayfly.images.recipe import DIGEST, NAME, recipe_names
from dayfly.paths import Paths, default_paths, host_error, make_directory
from dayfly.spec import Image

__all__ = ["ImageInfo", "Lease", "Package", "Store", "read_image"]

_WORK = ".build-"


@dataclass(frozen=True)
class Package:
    """One thing inside an image. ``kind`` is ``deb`` or ``wheel``; ``licence`` is empty where a wheel does not tell it."""

    name: str
    version: str
    kind: str
    licence: str = ""


@dataclass(frozen=True)
class ImageInfo:
    """An image as ``dayfly images list`` shows it. ``size`` in bytes, ``created`` in ISO 8601, UTC.

    Of a ``damaged`` one, only the digest and the names are known, and ``created`` says ``damaged``.
    """

    image: Image
    names: tuple[str, ...]
    size: int
    created: str
    packages: int
    damaged: bool = False


class Lease:
    """A shared hold on an image: while any is open, the image cannot be removed. Idempotent ``close``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store:
    """The images of one user on this machine. Cheap to make; creates nothing before something is built."""

    def __init__(self, paths: Paths | None = None) -> None:
        self._root = (paths or default_paths()).images

    @property
    def directory(self) -> Path:
        return self._root

    def resolve(self, name: str) -> Image:
        """The image of that name, digest or beginning of a digest. Raises ``ImageNotFound``."""
        found = self._locate(name)
        if found is None:
            raise _not_found(name, self._root)
        return read_image(found, name if self._is_name(name) else None)

    def list(self) -> tuple[ImageInfo, ...]:
        """All images, by their first name."""
        names: dict[str, tuple[str, ...]] = {}
        for link in sorted(self._names.glob("*")) if self._names.is_dir() else ():
            if link.is_symlink():
                target = link.readlink().name
                names[target] = (*names.get(target, ()), link.name)
        infos = [_info(path, names.get(path.name, ())) for path in self._images()]
        return tuple(sorted(infos, key=lambda info: (info.names or (info.image.digest,))[0]))

    def contents(self, name: str) -> tuple[Package, ...]:
        """What is inside. Raises ``ImageNotFound``."""
        directory = self.resolve(name).rootfs.parent
        return tuple(Package(**item) for item in json.loads((directory / "contents.json").read_text("utf-8")))

    def lock(self, name: str) -> dict[str, Any]:
        """The lock file: exact versions and SHA-256 of everything. Raises ``ImageNotFound``."""
        found: dict[str, Any] = json.loads((self.resolve(name).rootfs.parent / "lock.json").read_text("utf-8"))
        return found

    def lease(self, image: Image) -> Lease:
        """Hold ``image`` against removal until the lease (or this process) ends. Raises ``ImageNotFound``."""
        path = image.rootfs.parent / "lease"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _not_found(image.name, self._root) from error
        lease = Lease(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not (path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino):  # removed while we waited
            lease.close()
            raise _not_found(image.name, self._root)
        return lease

    def remove(self, name: str) -> None:
        """Take the name away, and the image with its last name. Raises ``ImageNotFound``, or ``HostError`` if in use."""
        directory = self._locate(name)
        if directory is None:
            raise _not_found(name, self._root)
        with self._locked(".lock"):
            if self._is_name(name) and len(self._names_of(directory)) > 1:
                self._link(name).unlink()
                return
            doomed = self._claim(directory, name)
            for link in self._names_of(directory):
                link.unlink()
        try:
            shutil.rmtree(doomed.path, ignore_errors=False)
        except FileNotFoundError:  # its lease went first, and a builder that found it without one removes it, too
            pass
        except OSError as error:
            raise host_error(error, f"cannot remove all of the image {name}") from error
        finally:
            doomed.close()

    def prune(self) -> tuple[str, ...]:
        """Remove images that no name points to (any more) and nobody uses; return their digests."""
        unnamed = [path for path in self._images() if not self._names_of(path)]
        removed = []
        for path in unnamed:
            with suppress(HostError):  # in use: it stays for now
                self.remove(path.name)
                removed.append(f"sha256:{path.name}")
        return tuple(removed)

    # --- for the builder ---

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A directory in the making, removed at the end unless ``adopt`` took it; those of dead builders go first."""
        make_directory(self._root.parent)
        make_directory(self._root)
        with self._locked(".lock"):
            self._sweep()
            work = _Work.create(self._root)
        try:
            yield work.path
        finally:
            shutil.rmtree(work.path, ignore_errors=True)  # what an interrupt leaves of it, the next build clears
            work.close()

    @contextmanager
    def building(self) -> Iterator[None]:
        """One assembly at a time: a second builder of the same image waits, and then finds it built."""
        with self._locked(".assembling"):
            yield

    def find(self, digest: str) -> Path | None:
        path = self._root / digest.removeprefix("sha256:")
        return path if path.is_dir() else None

    def adopt(self, work: Path, digest: str) -> Path:
        """Make the finished workspace the image of that digest."""
        target = self._root / digest.removeprefix("sha256:")
        work.rename(target)
        return target

    def name(self, name: str, digest: str) -> Image:
        """Point ``name`` to the image of that digest (atomically), and return it."""
        if not NAME.match(name) or DIGEST.match(name):
            raise InputError(
                f"not a name for an image: {name!r}", remedy="use lower-case letters, digits, '.', '_', '-'"
            )
        make_directory(self._names)
        new = self._names / f".{name}.{secrets.token_hex(8)}"
        new.symlink_to(f"../{digest.removeprefix('sha256:')}")
        new.replace(self._link(name))
        return self.resolve(name)

    # --- inside ---

    @property
    def _names(self) -> Path:
        return self._root / "names"

    def _link(self, name: str) -> Path:
        return self._names / name

    def _is_name(self, name: str) -> bool:
        return bool(NAME.match(name)) and self._link(name).is_symlink()

    def _names_of(self, directory: Path) -> tuple[Path, ...]:
        links = self._names.glob("*") if self._names.is_dir() else ()
        return tuple(link for link in links if link.is_symlink() and link.readlink().name == directory.name)

    def _images(self) -> tuple[Path, ...]:
        found = sorted(self._root.iterdir()) if self._root.is_dir() else []
        return tuple(path for path in found if re.fullmatch(r"[0-9a-f]{64}", path.name) and path.is_dir())

    def _locate(self, name: str) -> Path | None:
        if NAME.match(name):
            with suppress(OSError):
                target = self._root / self._link(name).readlink().name
                if target.is_dir():
                    return target
        match = DIGEST.match(name)
        fitting = [path for path in self._images() if path.name.startswith(match[1])] if match else []
        return fitting[0] if len(fitting) == 1 else None

    def _claim(self, directory: Path, name: str) -> _Work:
        """Move an unused image out of sight. Raises ``HostError`` if it is in use."""
        work = _Work.lock(directory)
        if work is None:
            raise HostError(f"the image {name} is in use by live sandboxes", remedy="close them first")
        return work.move(self._root / f"{_WORK}{secrets.token_hex(8)}")

    def _sweep(self) -> None:
        for path in self._root.glob(f"{_WORK}*"):
            work = _Work.lock(path)
            if work is not None:
                shutil.rmtree(path, ignore_errors=True)
                work.close()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        try:
            descriptor = os.open(self._root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise host_error(error, "cannot change the image store") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@dataclass(frozen=True)
class _Work:
    """A directory whose lease this process holds alone."""

    path: Path
    descriptor: int

    @classmethod
    def create(cls, root: Path) -> _Work:
        path = root / f"{_WORK}{secrets.token_hex(8)}"
        try:
            make_directory(path)
            descriptor = os.open(path / "lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise host_error(error, "cannot start a build") from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return cls(path, descriptor)

    @classmethod
    def lock(cls, path: Path) -> _Work | None:
        """``None`` if somebody else holds the lease, or has just moved or removed the directory."""
        try:
            descriptor = os.open(path / "lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def move(self, path: Path) -> _Work:
        self.path.rename(path)
        return _Work(path, self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


def read_image(directory: Path, name: str | None = None) -> Image:
    """The image in ``directory``, whose name is its digest. Raises ``HostError`` if it is damaged."""
    try:
        record = json.loads((directory / "image.json").read_text("utf-8"))
        return Image(
            name=name or record["name"],
            digest=f"sha256:{directory.name}",
            architecture=record["architecture"],
            rootfs=directory / "rootfs",
            python=record["python"],
            python_version=record["python_version"],
            languages=tuple(record["languages"]),
            environment=dict(record["environment"]),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise HostError(
            f"the image {directory.name} is damaged", remedy=f"dayfly images rm {directory.name}"
        ) from error


def _info(directory: Path, names: tuple[str, ...]) -> ImageInfo:
    try:
        record = json.loads((directory / "image.json").read_text("utf-8"))
        image = read_image(directory, names[0] if names else None)
        return ImageInfo(image, names, record["size"], record["created"], record["packages"])
    except (OSError, ValueError, LookupError, TypeError, HostError):
        name = names[0] if names else directory.name[:12]
        image = Image(name, f"sha256:{directory.name}", "", directory / "rootfs")
        return ImageInfo(image, names, 0, "damaged", 0, damaged=True)


def _not_found(name: str, root: Path) -> ImageNotFound:
    if name in recipe_names():
        return ImageNotFound(f"the image {name!r} is not built yet", remedy=f"run: dayfly images build {name}")
    links = sorted(path.name for path in (root / "names").glob("[!.]*")) if (root / "names").is_dir() else []
    built = f"built are: {', '.join(links)}; " if links else ""
    return ImageNotFound(f"no image is called {name!r}", remedy=f"{built}dayfly images build makes one from a recipe")
