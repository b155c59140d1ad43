"""Whom programs inside believe: the image's own roots and, while there is one, the sandbox's authority.

Law: the image's roots are always all there. The files are pid 1's own and replaced as a whole, so code neither changes one nor
ever sees half of it. What the image's programs read by default are links to them; others are led there by variables.
"""

from __future__ import annotations

import os
import stat
import sys

from dayfly.agent.kernels.scripts import RUN_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions keep theirs: Debian, Fedora (and the name that it had before), SUSE, Alpine. The first one counts."""

MAX_BUNDLE = 4 * 1024 * 1024
"""Bytes; Mozilla's list of 150 roots has 0.2 MB. More is not read: /run, which counts as memory, has 16 MiB."""

BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL, and so Python's ssl, aiohttp, Ruby; httpx, uv, Go, curl
    "REQUESTS_CA_BUNDLE",  # requests, which has certifi's list otherwise; botocore
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
"""Their programs read the file in the place of their own list, so it has the image's roots in it."""

AUTHORITY_VARIABLES = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
"""Their programs read the file beside their own list."""

_MARK = b"-----BEGIN CERTIFICATE-----"


class Trust:
    """``owner`` is the uid of user code, ``None`` where it is the agent's own: then no file of the image's is touched."""

    def __init__(self, owner: int | None) -> None:
        self._owner = owner
        inside = os.getpid() == 1
        self._directory = RUN_DIRECTORY if inside else os.environ.get("TMPDIR", "/tmp")
        self._is_ours = inside and owner is not None
        # by files of ours: what is in them beside the authority; empty: not looked for yet
        self._lists: dict[str, bytes] = {}
        self._places: dict[str, str] = {}  # files of the image: the file of ours that each becomes a link to
        self._written = ""  # the authority that is in the files
        self.bundle = f"{self._directory}/ca-certificates.crt"
        self.authority = f"{self._directory}/authority.crt"

    def variables(self) -> dict[str, str]:
        """By which programs find the authority."""
        found = dict.fromkeys(BUNDLE_VARIABLES, self.bundle)
        found.update(dict.fromkeys(AUTHORITY_VARIABLES, self.authority))
        return found

    def prepare(self, authority: str) -> None:
        """Write what ``commit`` puts in place. Raises ``OSError``, and nothing has changed."""
        if authority == self._written:
            return
        if not self._lists:
            self._look_for_lists()
        os.makedirs(self._directory, mode=0o755, exist_ok=True)
        try:
            for file, roots in self._files():
                _write(f"{file}.new", _joined(roots, authority))
        except OSError:
            self._give_back()
            raise

    def commit(self, authority: str) -> None:
        """After ``prepare``."""
        if authority == self._written:
            return
        self._written = authority
        for file, _ in self._files():
            os.replace(f"{file}.new", file)
        places, self._places = self._places, {}
        for place, file in places.items():
            try:
                self._lead(place, file)
            except OSError:  # it is on a mount of its own: variables are all there is
                continue

    def _give_back(self) -> None:
        """What a full disk, which is memory, has taken of it."""
        for file, _ in self._files():
            try:
                os.unlink(f"{file}.new")
            except OSError:  # it was not written
                continue

    def _files(self) -> list[tuple[str, bytes]]:
        return [*self._lists.items(), (self.authority, b"")]

    def _look_for_lists(self) -> None:
        """The system's list, and certifi's, which Python's programs have of their own: it is the system's where that has none."""
        system, roots = next(_lists(SYSTEM_BUNDLES), ("", b""))
        certifis = dict(_lists(_certifis()))
        self._lists[self.bundle] = roots or next(iter(certifis.values()), b"")
        if not self._is_ours:
            return
        if system:
            self._places[system] = self.bundle
        for number, (place, roots) in enumerate(certifis.items()):
            if place == system:  # as Debian's certifi has it
                continue
            file = f"{self._directory}/certifi-{number}.crt"
            self._lists[file], self._places[place] = roots, file

    def _lead(self, place: str, file: str) -> None:
        """A file of the image's becomes a link. Pid 1 has no right to write where it is, but may own that for a moment: the
        directory that was looked at, whatever its path may mean by then."""
        path, name = os.path.split(place)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            before = os.fstat(directory)
            if before.st_uid == self._owner or before.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return  # code could have led us anywhere
            os.fchown(directory, os.geteuid(), -1)
            try:
                _link(file, name, directory)
            finally:
                os.fchown(directory, before.st_uid, -1)
        finally:
            os.close(directory)


def _lists(paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Those that there are, each once and where it really is, and what is in them."""
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        found = _read(path)
        if _MARK in found:
            yield path, found


def _link(target: str, name: str, directory: int) -> None:
    new = f"{name}.new"
    try:
        os.unlink(new, dir_fd=directory)
    except FileNotFoundError:
        pass
    os.symlink(target, new, dir_fd=directory)
    os.replace(new, name, src_dir_fd=directory, dst_dir_fd=directory)


def _joined(roots: bytes, authority: str) -> bytes:
    if not authority:
        return roots
    if roots and not roots.endswith(b"\n"):
        roots += b"\n"
    return roots + authority.encode("ascii")


def _write(path: str, content: bytes) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(fd, "wb") as file:
        file.write(content)


def _read(path: str) -> bytes:
    """Of a regular file that is not too big; else nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return b""
    with open(fd, "rb") as file:
        content = file.read(MAX_BUNDLE + 1)
    return content if len(content) <= MAX_BUNDLE else b""


def _certifis() -> Iterable[str]:
    """Of the image's Python, on which the agent runs: its own, and the copy in pip."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for packages in (
        f"{sys.prefix}/lib/python{version}/site-packages",
        f"{sys.prefix}/local/lib/python{version}/dist-packages",
        f"{sys.prefix}/lib/python3/dist-packages",
    ):
        yield f"{packages}/certifi/cacert.pem"
        yield f"{packages}/pip/_vendor/certifi/cacert.pem"
