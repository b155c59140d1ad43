"""Whom programs inside believe: the image's own roots and, while there is one, the sandbox's authority, in one file.

Law: the image's roots are always all there. The file is pid 1's own and replaced as a whole, so code neither changes it nor
ever sees half of it. What the image's programs read by default is a link to it; others are led to it by variables.
"""

from __future__ import annotations

import os
import stat
import sys

from dayfly.agent.kernels.scripts import RUN_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """``owner`` is the uid of user code, ``None`` where it is the agent's own: then the system's file is not touched."""

    def __init__(self, owner: int | None) -> None:
        self._owner = owner
        inside = os.getpid() == 1
        self._directory = RUN_DIRECTORY if inside else os.environ.get("TMPDIR", "/tmp")
        self._is_ours = inside and owner is not None
        self._roots: bytes | None = None
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
        if self._roots is None:
            self._roots = self._image_roots()
        os.makedirs(self._directory, mode=0o755, exist_ok=True)
        _write(self.bundle + ".new", _joined(self._roots, authority))
        _write(self.authority + ".new", authority.encode("ascii"))

    def commit(self, authority: str) -> None:
        """After ``prepare``."""
        if authority == self._written:
            return
        self._written = authority
        os.replace(self.bundle + ".new", self.bundle)
        os.replace(self.authority + ".new", self.authority)
        if self._is_ours:
            self._lead_there()

    def _image_roots(self) -> bytes:
        """The system's list, or certifi's; none where the image has neither."""
        for path in (*SYSTEM_BUNDLES, *_certifis()):
            found = _read(path)
            if _MARK in found:
                return found
        return b""

    def _lead_there(self) -> None:
        """The system's file is a link to ours. Where that cannot be, the variables are all there is."""
        for path in SYSTEM_BUNDLES:
            real = os.path.realpath(path)
            if real == self.bundle:
                return
            if os.path.isfile(real):
                try:
                    self._replace(real)
                except OSError:
                    pass
                return

    def _replace(self, path: str) -> None:
        """Pid 1 has no right to write into a directory of another's, but may own it for a moment."""
        directory = os.path.dirname(path)
        before = os.stat(directory)
        if before.st_uid == self._owner or before.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return  # code could have led us anywhere
        os.chown(directory, os.geteuid(), -1)
        try:
            _link(self.bundle, path)
        finally:
            os.chown(directory, before.st_uid, -1)


def _link(target: str, path: str) -> None:
    new = f"{path}.new"
    try:
        os.unlink(new)
    except FileNotFoundError:
        pass
    os.symlink(target, new)
    os.replace(new, path)


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
