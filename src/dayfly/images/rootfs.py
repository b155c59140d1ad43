"""Making a root filesystem from packages by plain unpacking, as any user: no chroot, no maintainer script is run.

What maintainer scripts would have done and the sandbox needs is done here: accounts, certificates, links, linker cache.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from dayfly.errors import HostError, OutOfSpace
from dayfly.images.tools import need, plain, run, with_parent_death
from dayfly.paths import host_error

__all__ = ["USER_ID", "compile_python", "complete", "normalise", "prepare", "prune", "unpack_deb"]

USER_ID = 1000
"""Who code runs as inside; its home is /home/user."""

_TOLD = 300  # characters of what a tool said, its last
_MERGED = ("bin", "sbin", "lib", "lib64")
_EXCLUDED = ("./usr/share/man", "./usr/share/locale", "./usr/share/info", "./usr/share/lintian", "./usr/share/bug")
_REMOVED = (
    "var/lib/apt",
    "var/cache/apt",
    "var/log",
    "usr/share/doc-base",
    "usr/share/git-core/contrib",
    "boot",
    "media",
)
_DIRECTORIES = (
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "var/tmp",
    "var/log",
    "home/user",
    "root",
    "mnt",
    "etc/ssl/certs",
    "opt",
)
# Inside, the builder's uid is nobody's: what the user there must be able to write is open to all of that one room.
_OPEN = {"tmp": 0o1777, "var/tmp": 0o1777, "home/user": 0o777}

_FILES = {
    "etc/hostname": "sandbox\n",
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    # The agent answers there where a policy lists names; else the query fails at once. Never the host's own file.
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
    "protocols: files\nservices: files\n",
    "etc/machine-id": "",
    "etc/fstab": "",
}
# What maintainer scripts would have linked, if the target is there.
_LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/nawk": "mawk",
    "usr/bin/which": "which.debianutils",
    "usr/bin/pager": "more",
    "usr/bin/sh": "dash",
    "usr/bin/node": "nodejs",
    "usr/bin/python": "python3",
    "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt",
    "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
    "etc/mtab": "../proc/self/mounts",
}


def prepare(root: Path) -> None:
    """The merged-/usr links, before anything is unpacked: old packages still name /bin and /lib."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")


def unpack_deb(deb: Path, root: Path) -> None:
    """Unpack a package's files into ``root``, manuals and translations left out. Raises ``HostError``."""
    excluded = [f"--exclude={path}" for path in _EXCLUDED]
    tar = [need("tar", "tar"), "--extract", "--file=-", f"--directory={root}", "--keep-directory-symlink",
           "--no-same-owner", "--no-same-permissions", *excluded]  # fmt: skip
    reader = subprocess.Popen(
        with_parent_death([need("dpkg-deb", "dpkg"), "--fsys-tarfile", str(deb)]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with reader:
        writer = subprocess.run(
            with_parent_death(tar), stdin=reader.stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    if writer.returncode or reader.returncode:
        if "No space left" in writer.stderr or "quota exceeded" in writer.stderr:
            raise OutOfSpace("no space left while unpacking packages", remedy="free some space, or set DAYFLY_DATA")
        said = plain(writer.stderr.strip()[-_TOLD:]) or "it is damaged"
        raise HostError(f"cannot unpack {deb.name}: {said}", remedy="try again; check the mirror")


def complete(root: Path) -> None:
    """What the packages' maintainer scripts would have left, as far as a sandbox needs it. Raises ``HostError``."""
    try:
        for name in _REMOVED:
            shutil.rmtree(root / name, ignore_errors=True)
        for name in _DIRECTORIES:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            _write(root / name, text)
        _accounts(root)
        _certificates(root)
        _links(root)
        _trim_documentation(root)
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()  # pip may install here: the room is thrown away
    except OSError as error:
        raise host_error(error, "cannot complete the image") from error
    run([need("ldconfig", "libc-bin"), "-r", str(root)], what="cannot build the linker's cache")


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # never through a link that a package left
    path.write_text(text, "utf-8")


def _accounts(root: Path) -> None:
    masters = root / "usr/share/base-passwd"
    users = (masters / "passwd.master").read_text("utf-8").replace(":*:", ":x:")
    groups = (masters / "group.master").read_text("utf-8").replace(":*:", ":x:")
    _write(root / "etc/passwd", f"{users}user:x:{USER_ID}:{USER_ID}:user:/home/user:/bin/bash\n")
    _write(root / "etc/group", f"{groups}user:x:{USER_ID}:\n")


def _certificates(root: Path) -> None:
    bundle = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    if bundle:
        text = "".join(path.read_text("ascii").strip() + "\n" for path in bundle)
        _write(root / "etc/ssl/certs/ca-certificates.crt", text)


def _links(root: Path) -> None:
    for name, target in _LINKS.items():
        path = root / name
        there = (root / target[1:] if target.startswith("/") else path.parent / target).exists()
        if (there or "proc/" in target) and path.parent.is_dir() and not path.is_symlink() and not path.exists():
            path.symlink_to(target)


def _trim_documentation(root: Path) -> None:
    """Keep the copyright files, which the licences ask for."""
    for path in root.glob("usr/share/doc/*/*"):
        if path.name != "copyright":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def prune(directory: Path, globs: Iterable[str]) -> None:
    """Remove what matches below ``directory``."""
    for glob in globs:
        for path in list(directory.glob(glob)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()


def normalise(root: Path) -> int:
    """Make everything readable for every uid, without setuid bits; return the bytes of all files.

    The sandbox runs as an unprivileged host uid. Devices, sockets and FIFOs are removed.
    """
    size = 0
    try:
        for directory, names, files in os.walk(root):
            _normalise_entry(Path(directory))
            size += sum(_normalise_entry(Path(directory, name)) for name in (*names, *files))
        for name, mode in _OPEN.items():
            (root / name).chmod(mode)
    except OSError as error:
        raise host_error(error, "cannot set the image's permissions") from error
    return size


def _normalise_entry(path: Path) -> int:
    found = path.lstat()
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        return 0
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        path.unlink()
        return 0
    wanted = 0o755 if kind == stat.S_IFDIR or found.st_mode & 0o111 else 0o644
    if stat.S_IMODE(found.st_mode) != wanted:
        path.chmod(wanted)
    return found.st_size if kind == stat.S_IFREG else 0


def compile_python(python: Sequence[str], root: Path, directories: Sequence[str]) -> None:
    """Byte code for all modules below ``directories`` (absolute paths inside), by a host Python of the same version.

    Unchecked: the image never changes. A file that does not compile (there are such, on purpose, in packages) is left.
    """
    existing = [str(root / name.lstrip("/")) for name in directories if (root / name.lstrip("/")).is_dir()]
    argv = [*python, "-I", "-m", "compileall", "-qq", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash",
            "-s", str(root), "-p", "/", *existing]  # fmt: skip
    subprocess.run(with_parent_death(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False)
