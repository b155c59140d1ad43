"""Prints the path of a program of the distribution's: as it is installed, or out of its package, unpacked beside dayfly's own data.

    python tools/program.py bwrap bubblewrap

Nothing of the system changes, and an ordinary user may.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from dayfly.images.apt import Apt
from dayfly.images.cache import Cache
from dayfly.images.progress import silent
from dayfly.images.rootfs import unpack_deb
from dayfly.images.sources import host_distribution, own_sources
from dayfly.images.tools import need, run
from dayfly.paths import default_paths, make_directory


def program(name: str, package: str) -> Path:
    """Raises ``HostError`` where the distribution has none."""
    installed = shutil.which(name)
    if installed:
        return Path(installed)
    kept = default_paths().cache / "programs" / package
    if not kept.is_dir():
        _unpack(package, kept)
    return next(path for path in (kept / "usr/bin" / name, kept / "bin" / name) if path.exists())


def _unpack(package: str, kept: Path) -> None:
    make_directory(kept.parent)
    host = host_distribution()
    architecture = run([need("dpkg", "dpkg"), "--print-architecture"], what="cannot tell the architecture").strip()
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="apt-") as name:
        work = Path(name)
        work.chmod(0o755)  # apt downloads as a user of its own when root asks
        apt = Apt(work / "apt", own_sources(host, host.codename, backports=False), architecture)
        apt.update(silent)
        [file] = apt.fetch([apt.resolve_one(package, None)], Cache(default_paths().cache / "debs"), silent)
        unpacked = work / "unpacked"
        unpacked.mkdir()
        unpack_deb(file, unpacked)
        unpacked.chmod(0o755)
        unpacked.rename(kept)


if __name__ == "__main__":
    sys.stdout.write(f"{program(*sys.argv[1:])}\n")
