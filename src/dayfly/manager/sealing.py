"""A directory as one encrypted file, and back: AES-256-GCM over a tar, in chunks, each file under a key of its own.

The chunks are those of STREAM (Hoang, Reyhanitabar, Rogaway, Vizár, 2015): the nonce counts them, and its last byte marks
the last one, so that none can be changed, left out, repeated or moved, nor the end be cut off. A key seals once.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dayfly.errors import HostError, OutOfSpace
from dayfly.paths import host_error

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["NOWHERE", "Sealed", "seal", "unseal"]

CHUNK = 1 << 20
"""Bytes that are encrypted at once: larger ones are no faster, and each is authenticated before it is used."""

TAG = 16
"""Bytes that GCM adds to each chunk."""

_NONCE = Callable[[bool], bytes]


@dataclass(frozen=True)
class Sealed:
    """``key`` is hex, and is kept elsewhere than the file: whoever forgets it has destroyed what is in there."""

    file: Path
    size: int
    key: str = field(repr=False)

    def discard(self) -> None:
        """Idempotent. Raises ``HostError``."""
        try:
            self.file.unlink(missing_ok=True)
        except OSError as error:
            raise host_error(error, f"cannot remove {self.file}") from error


NOWHERE = Sealed(Path(), 0, "")
"""Not sealed yet."""


def seal(directory: Path, file: Path, most: int) -> Sealed:
    """Write the plain files of ``directory`` to ``file``, whole and on the disk, or nothing.

    Raises ``OutOfSpace`` beyond ``most`` bytes too, and ``HostError``.
    """
    key = secrets.token_bytes(32)
    part = file.with_name(f"{file.name}.part")
    try:
        with _create(part) as out:
            _pack(directory, _Sealing(out, _cipher(key), most))
            out.flush()
            os.fsync(out.fileno())
            size = out.tell()
        part.replace(file)
        _sync(file.parent)
    except OSError as error:
        raise host_error(error, f"cannot write {file}") from error
    finally:
        part.unlink(missing_ok=True)
    return Sealed(file, size, key.hex())


def unseal(sealed: Sealed, directory: Path) -> None:
    """Write what was sealed into the new ``directory``. Raises ``HostError``, and ``OutOfSpace``."""
    try:
        directory.mkdir(mode=0o700)
        with sealed.file.open("rb") as file:
            _unpack(_Unsealing(file, _cipher(bytes.fromhex(sealed.key))), directory)
    except tarfile.TarError as error:
        raise _damaged(sealed.file) from error
    except OSError as error:
        raise host_error(error, f"cannot unseal {sealed.file}") from error


def _pack(directory: Path, out: _Sealing) -> None:
    with closing(out), tarfile.open(fileobj=out, mode="w|", bufsize=CHUNK) as tar:  # type: ignore[call-overload]
        for path in sorted(directory.iterdir()):
            tar.add(path, arcname=path.name, recursive=False)


def _unpack(source: _Unsealing, directory: Path) -> None:
    with tarfile.open(fileobj=source, mode="r|", bufsize=CHUNK) as tar:  # type: ignore[call-overload]
        for member in tar:
            content = tar.extractfile(member)
            if content is None or "/" in member.name or member.name.startswith("."):
                raise _damaged(source.path)
            with content, _create(directory / member.name) as out:
                shutil.copyfileobj(content, out, CHUNK)
    while source.read(CHUNK):  # to its end: only then is it known to be whole
        pass


class _Sealing:
    """A file to write to."""

    def __init__(self, out: IO[bytes], cipher: AESGCM, most: int) -> None:
        self._out = out
        self._cipher = cipher
        self._nonce = _nonces()
        self._room = most
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        while len(self._held) > CHUNK:  # the last one is never sent before its time
            self._send(bytes(self._held[:CHUNK]), last=False)
            del self._held[:CHUNK]
        return len(data)

    def close(self) -> None:
        self._send(bytes(self._held), last=True)

    def _send(self, chunk: bytes, *, last: bool) -> None:
        self._room -= len(chunk) + TAG
        if self._room < 0:
            raise OutOfSpace("there is no room for another paused sandbox of that size", remedy="end some of them")
        self._out.write(self._cipher.encrypt(self._nonce(last), chunk, None))


class _Unsealing:
    """A file to read from. What it gives is authentic; that it is all there, only its end tells."""

    def __init__(self, file: IO[bytes], cipher: AESGCM) -> None:
        self.path = Path(file.name)
        self._file = file
        self._cipher = cipher
        self._nonce = _nonces()
        self._next = file.read(CHUNK + TAG)
        self._plain = b""
        self._over = False

    def read(self, size: int) -> bytes:
        while len(self._plain) < size and not self._over:
            self._plain += self._opened()
        given, self._plain = self._plain[:size], self._plain[size:]
        return given

    def _opened(self) -> bytes:
        from cryptography.exceptions import InvalidTag

        chunk, self._next = self._next, self._file.read(CHUNK + TAG)
        self._over = not self._next
        try:
            return self._cipher.decrypt(self._nonce(self._over), chunk, None)
        except (InvalidTag, ValueError) as error:
            raise _damaged(self.path) from error


def _nonces() -> _NONCE:
    count = 0

    def next_one(last: bool) -> bytes:
        nonlocal count
        count += 1
        return count.to_bytes(11, "big") + bytes([last])

    return next_one


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise HostError(
            "paused sandboxes are encrypted, and the library for it is not installed",
            remedy="pip install 'dayfly[pause]'",
        ) from error
    return AESGCM(key)


def _create(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _sync(directory: Path) -> None:
    """A new name lasts from here on."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _damaged(path: Path) -> HostError:
    return HostError(f"{path} is damaged, or is not what was sealed", remedy="end that sandbox, and open a new one")
