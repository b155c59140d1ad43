"""Obtaining a ``runsc`` for this user, without root and without touching the system.

Four sources: the distribution's package (the default), gVisor's own current release, a build from its Go module, a
file. Whatever comes is put into a directory of its own and asked what it is; only then does ``bin/runsc`` point there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from dayfly.errors import DayflyError, HostError, InputError, RuntimeMissing, RuntimeTooOld
from dayfly.images.apt import Apt, Deb
from dayfly.images.cache import Cache
from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.rootfs import unpack_deb
from dayfly.images.sources import Distribution, host_distribution, own_sources
from dayfly.images.tools import ToolFailed, need, run
from dayfly.limits import GIB, KIB, MIB
from dayfly.paths import Paths, default_paths, host_error, make_directory
from dayfly.runtime import FLOOR, Runsc, date_of, inspect_runsc

__all__ = ["RELEASES", "from_distribution", "from_file", "from_go", "from_release", "obtain"]

RELEASES = "https://storage.googleapis.com/gvisor/releases/release/latest"
"""Where gVisor publishes its current release; only ``from_release`` goes there."""

MODULE = "gvisor.dev/gvisor"

_ARCHIVE_CAP = 1 * GIB  # a release is some 100 MB
_UNPACKED_CAP = 2 * GIB
_SUM_CAP = 4 * KIB
_CHUNK = 1 * MIB
_NETWORK_SECONDS = 60.0  # without a byte
_SIDECARS = "gvisor-bin"  # helper programs of current releases; runsc looks for them beside itself
_OTHERS = "dayfly setup --from go (where a Go toolchain is installed), or --from PATH"


def obtain(
    source: str | None = None, *, paths: Paths | None = None, releases: str = RELEASES, progress: Progress = silent
) -> Runsc:
    """Install a runsc for this user. ``source``: ``None`` (the distribution), ``release``, ``go`` or a path.

    Raises ``HostError`` (with ``RuntimeTooOld``, ``OutOfSpace`` among them) or ``InputError``; what was there stays.
    """
    places = paths or default_paths()
    if source is None or source == "distribution":
        return from_distribution(places, progress)
    if source == "release":
        return from_release(places, releases, progress)
    if source == "go":
        return from_go(places, progress)
    return from_file(places, Path(source))


def from_distribution(paths: Paths, progress: Progress = silent) -> Runsc:
    """The newest package that the distribution has for this machine's release, backports included."""
    host = host_distribution()
    architecture = run([need("dpkg", "dpkg"), "--print-architecture"], what="cannot tell the architecture").strip()
    with _staging(paths) as stage, tempfile.TemporaryDirectory(dir=paths.cache, prefix="apt-") as work:
        Path(work).chmod(0o755)  # apt downloads as a user of its own when root asks
        apt, deb = _find_package(host, Path(work), architecture, progress)
        [file] = apt.fetch([deb], Cache(paths.cache / "debs"), progress)
        unpacked = Path(work) / "unpacked"
        unpacked.mkdir()
        unpack_deb(file, unpacked)
        shutil.copyfile(unpacked / "usr/bin/runsc", stage / "runsc")
        return _install(stage, paths)


def _find_package(host: Distribution, work: Path, architecture: str, progress: Progress) -> tuple[Apt, Deb]:
    for backports in (True, False):  # a mirror without backports fails as a whole, then it goes without
        apt = Apt(work / str(backports), own_sources(host, host.codename, backports=backports), architecture)
        try:
            apt.update(progress)
        except HostError:
            if backports:
                continue
            raise
        for suite in (None, f"{host.codename}-backports") if backports else (None,):
            with suppress(ToolFailed, InputError):  # not in that suite
                deb = apt.resolve_one("runsc", suite)
                if (date_of(deb.version) or FLOOR) >= FLOOR:
                    return apt, deb
        break
    raise RuntimeTooOld(
        f"{host.id} {host.codename} has no runsc of {FLOOR:%Y%m%d} or newer",
        remedy=f"dayfly setup --from release, {_OTHERS.removeprefix('dayfly setup ')}",
    )


def from_release(paths: Paths, releases: str = RELEASES, progress: Progress = silent) -> Runsc:
    """gVisor's current release from ``releases`` (a URL), if it is what its published SHA-512 says."""
    url = f"{releases}/{os.uname().machine}/gvisor.tar.bz2"
    with _staging(paths) as stage:
        archive = stage / "gvisor.tar.bz2"
        wanted = _published_sum(f"{url}.sha512")
        if _download(url, archive, progress) != wanted:
            raise HostError(
                "the release is not the file that its SHA-512 describes", remedy="try again; then tell gVisor"
            )
        _unpack_release(archive, stage)
        archive.unlink()
        return _install(stage, paths)


def _published_sum(url: str) -> str:
    with _open(url) as response:
        text = response.read(_SUM_CAP).decode("ascii", "replace")
    match = re.match(r"^([0-9a-fA-F]{128})(?:\s|$)", text)
    if match is None:
        raise HostError(f"{url} holds no SHA-512", remedy=_OTHERS)
    return match[1].lower()


def _download(url: str, target: Path, progress: Progress) -> str:
    """Fetch ``url`` into ``target`` and return its SHA-512 in hex."""
    digest, done = hashlib.sha512(), 0
    with _open(url) as response, target.open("wb") as file:
        length = response.headers.get("Content-Length", "")  # type: ignore[attr-defined]
        total = int(length) if length.isdecimal() else None
        while chunk := response.read(_CHUNK):
            done += len(chunk)
            if done > _ARCHIVE_CAP:
                raise HostError(f"{url} is larger than a release can be", remedy=_OTHERS)
            digest.update(chunk)
            file.write(chunk)
            progress(Step(Stage.DOWNLOAD, done, total, "gvisor"))
    return digest.hexdigest()


@contextmanager
def _open(url: str) -> Iterator[IO[bytes]]:
    try:
        with urllib.request.urlopen(  # noqa: S310  # the scheme is checked below, after redirects
            url, timeout=_NETWORK_SECONDS, context=ssl.create_default_context()
        ) as response:
            if urlsplit(response.url).scheme != urlsplit(url).scheme:
                raise HostError(f"{url} leads to another kind of address", remedy=_OTHERS)
            yield response
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise HostError(f"cannot download {url}: {reason}", remedy=f"check the network, or use {_OTHERS}") from error


def _unpack_release(archive: Path, stage: Path) -> None:
    """Only ``runsc`` and the plain files in ``gvisor-bin``; nothing else of the archive is looked at."""
    size = 0
    try:
        with tarfile.open(archive, "r:bz2") as release:
            for member in release:
                parts = PurePosixPath(member.name).parts
                wanted = parts == ("runsc",) or (len(parts) == 2 and parts[0] == _SIDECARS and parts[1] != "..")
                content = release.extractfile(member) if wanted and member.isfile() else None
                if content is None:
                    continue
                size += member.size
                if size > _UNPACKED_CAP:
                    raise HostError("the release unpacks to more than a release can be", remedy=_OTHERS)
                target = stage.joinpath(*parts)
                target.parent.mkdir(exist_ok=True)
                with content, target.open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError) as error:
        raise HostError(f"the release cannot be unpacked: {error}", remedy="try again") from error


def from_go(paths: Paths, progress: Progress = silent) -> Runsc:
    """Build the current source from gVisor's Go module with the host's Go, through its configured module proxy."""
    go = need("go", "golang-go (or a newer Go from its project)")
    with _staging(paths) as stage, tempfile.TemporaryDirectory(dir=paths.cache, prefix="go-") as work:
        env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
        remedy = "check the network and Go's configuration; gVisor needs a current Go"

        def call(*arguments: str) -> str:
            return run([go, *arguments], what="cannot build runsc", remedy=remedy, env=env, cwd=Path(work))

        progress(Step(Stage.DOWNLOAD, detail=MODULE))
        call("mod", "init", "dayfly.invalid/runsc")
        call("get", f"{MODULE}/runsc@latest")
        version = call("list", "-m", "-f", "{{.Version}}", MODULE).strip()
        progress(Step(Stage.COMPILE, detail=f"{MODULE} {version}"))
        label = f"-s -w -X {MODULE}/runsc/version.version={version}"
        call("build", "-trimpath", "-ldflags", label, "-o", str(stage / "runsc"), f"{MODULE}/runsc")
        return _install(stage, paths)


def from_file(paths: Paths, path: Path) -> Runsc:
    """A copy of a runsc that is already on this machine, with its helper programs if they lie beside it."""
    real = path.expanduser().resolve()
    if not real.is_file():
        raise InputError(f"{path} is not a file", remedy="--from takes release, go, or the path of a runsc")
    with _staging(paths) as stage:
        shutil.copyfile(real, stage / "runsc")
        helpers = real.parent / _SIDECARS
        if helpers.is_dir():
            shutil.copytree(helpers, stage / _SIDECARS)
        return _install(stage, paths)


@contextmanager
def _staging(paths: Paths) -> Iterator[Path]:
    """A directory in ``bin`` that becomes the runtime's own, or goes away. One at a time: each removes what is old."""
    for directory in (paths.data, paths.cache, paths.bin):
        make_directory(directory)
    try:
        with _alone(paths.cache / "runsc.lock"):
            stage = make_directory(paths.bin / f"gvisor-{secrets.token_hex(8)}")
            try:
                yield stage
            finally:
                if not _is_current(stage, paths):
                    shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise host_error(error, "cannot install runsc") from error


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Whoever else obtains one waits, until this process has ended at the latest."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_current(stage: Path, paths: Paths) -> bool:
    return (paths.bin / "runsc").resolve().parent == stage


def _install(stage: Path, paths: Paths) -> Runsc:
    """Let ``bin/runsc`` point to what was staged, if it is usable. The one before is kept: sandboxes may still run it."""
    if not (stage / "runsc").is_file():
        raise RuntimeMissing("what was obtained holds no runsc", remedy=_OTHERS)
    for path in (stage / "runsc", *stage.glob(f"{_SIDECARS}/*")):
        path.chmod(0o755)
    try:
        found = inspect_runsc(stage / "runsc", paths)
    except DayflyError as error:
        error.remedy = f"use another source: {_OTHERS}"
        raise
    link = paths.bin / "runsc"
    previous = link.resolve().parent
    new = paths.bin / f".runsc-{secrets.token_hex(8)}"
    new.symlink_to(f"{stage.name}/runsc")
    new.replace(link)
    for old in paths.bin.glob("gvisor-*"):
        if old not in (stage, previous):
            shutil.rmtree(old, ignore_errors=True)
    return replace(found, path=link.resolve())
