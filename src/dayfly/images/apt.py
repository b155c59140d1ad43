"""apt with a private state: it asks the distribution's archive, checks its signatures, and changes nothing here.

The host's apt configuration is not loaded, since its hooks act on the system (some delete the system's package cache
after every update); only what says how to reach the archive (proxies, retries, credentials) is taken over.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from dayfly.errors import HostError, InputError
from dayfly.images.cache import Cache
from dayfly.images.progress import Progress, Stage, Step, silent
from dayfly.images.sources import Source, render
from dayfly.images.tools import ToolFailed, need, run
from dayfly.paths import make_directory

__all__ = ["Apt", "Deb"]

_KEPT = re.compile(
    r"^Acquire::(?:(?:https?|ftp|tor|mirror)\b|Retries|ForceIPv[46]|Check-(?:Valid-Until|Date)|Queue-Mode).*$",
    re.IGNORECASE,
)
_URI_LINE = re.compile(r"^'([^']+)' (\S+) (\d+) SHA256:([0-9a-f]{64})$")


@dataclass(frozen=True)
class Deb:
    """One package of the archive, as its signed index describes it. ``size`` in bytes."""

    name: str
    version: str
    architecture: str
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


class Apt:
    """A private apt in ``directory`` (created, absolute; the caller removes it) over ``sources``."""

    def __init__(self, directory: Path, sources: Sequence[Source], architecture: str) -> None:
        self._directory = directory
        self._archives = directory / "archives"
        for path in (directory / "lists/partial", self._archives / "partial", directory / "parts"):
            make_directory(path)  # whatever the umask: as root, apt downloads as a user of its own
        (directory / "status").touch()  # nothing is installed: every dependency has to be fetched
        (directory / "parts/distribution.sources").write_text(render(sources), "utf-8")
        (directory / "apt.conf").write_text(self._configuration(architecture), "utf-8")
        self._environment = {**os.environ, "APT_CONFIG": str(directory / "apt.conf")}
        self._get = need("apt-get", "apt")

    def update(self, progress: Progress = silent) -> None:
        """Fetch the signed indexes. Raises ``HostError``."""
        progress(Step(Stage.RESOLVE, detail="package lists"))
        run(
            [self._get, "-q", "update"],
            what="cannot read the distribution's package lists",
            remedy="check the network and /etc/apt/sources.list (apt-get update must work)",
            env=self._environment,
        )

    def resolve(self, packages: Sequence[str]) -> list[Deb]:
        """Every package that ``packages`` (names or apt patterns) need together, by name. Raises ``HostError``, ``InputError``."""
        return self._choose(["--assume-yes", "install", "--", *packages])

    def resolve_one(self, package: str, suite: str | None = None) -> Deb:
        """One package without what it depends on."""
        wanted = f"{package}/{suite}" if suite else package
        return self._choose(["download", "--", wanted])[0]

    def _choose(self, arguments: Sequence[str]) -> list[Deb]:
        argv = [self._get, "-qq", "--print-uris", *arguments]
        try:
            return _parse_uris(run(argv, what="cannot choose packages", remedy=_CHOICE_REMEDY, env=self._environment))
        except ToolFailed as error:
            unknown = sorted(set(re.findall(r"^E: Unable to locate package (\S+)", error.output, re.MULTILINE)))
            if unknown:
                names = ", ".join(unknown)
                raise InputError(f"the distribution has no package {names}", remedy=_CHOICE_REMEDY) from error
            raise

    def fetch(self, debs: Sequence[Deb], cache: Cache, progress: Progress = silent) -> list[Path]:
        """The files of ``debs`` in their order, from the cache or downloaded. Raises ``HostError``."""
        missing = [deb for deb in debs if cache.find(deb.sha256) is None]
        total = sum(deb.size for deb in missing)
        if missing:
            self._download(missing, total, progress)
            for deb in missing:
                cache.add(self._archives / deb.filename, deb.sha256)
        progress(Step(Stage.DOWNLOAD, total, total, "packages"))
        return [cache.get(deb.sha256) for deb in debs]

    def _download(self, debs: Sequence[Deb], total: int, progress: Progress) -> None:
        def on_line(line: str) -> None:
            match = re.match(r"^dlstatus:\d+:([\d.]+):(.*)$", line)
            if match:
                progress(Step(Stage.DOWNLOAD, int(total * float(match[1]) / 100), total, match[2]))

        exact = [f"{deb.name}:{deb.architecture}={deb.version}" for deb in debs]
        run(
            [self._get, "-qq", "-o", "APT::Status-Fd=1", "download", "--", *exact],
            what="cannot download packages",
            remedy="check the network and try again; what arrived is kept",
            env=self._environment,
            cwd=self._archives,
            on_line=on_line,
        )

    def _configuration(self, architecture: str) -> str:
        base = self._directory
        own = {
            "APT::Architecture": architecture,
            "APT::Install-Recommends": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::Languages": "none",
            "Acquire::ForceHash": "SHA256",
            "Dir::Etc::Main": "/dev/null",
            "Dir::Etc::Parts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(base / "parts"),
            "Dir::State": str(base),
            "Dir::State::status": str(base / "status"),
            "Dir::Cache": str(base),
        }
        if '"' in str(base):
            raise HostError(f"apt cannot work in {base}", remedy="set DAYFLY_DATA to a path without quotation marks")
        return "\n".join([*_host_transport(), *(f'{key} "{value}";' for key, value in own.items())]) + "\n"


_CHOICE_REMEDY = "check the names against the distribution's package list"


def _host_transport() -> list[str]:
    done = subprocess.run([need("apt-config", "apt"), "dump"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if _KEPT.match(line)]


def _parse_uris(text: str) -> list[Deb]:
    debs = []
    for line in text.splitlines():
        match = _URI_LINE.match(line.strip())
        if match:
            name, version, rest = match[2].removesuffix(".deb").split("_", 2)
            debs.append(Deb(name, unquote(version), rest, match[4], int(match[3])))
    if not debs:
        raise ToolFailed("apt chose no package", text[-1000:], remedy=_CHOICE_REMEDY)
    return sorted(debs, key=lambda deb: (deb.name, deb.architecture))  # apt's own order differs from call to call
