"""Files of this machine: read with translated errors, and written so that they appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from dayfly.errors import LocalFileError, OutOfSpace

__all__ = ["LocalFile", "PartFile", "local_error"]

_FULL = (28, 122)  # ENOSPC, EDQUOT


class PartFile:
    """What is written goes to a temporary file beside ``path``; ``commit`` puts it there, ``discard`` removes it."""

    def __init__(self, path: Path) -> None:
        """Raises ``LocalFileError`` or ``OutOfSpace``."""
        self.path = path
        try:
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dayfly-")
        except OSError as error:
            raise local_error(path, error) from error
        self._file: IO[bytes] = os.fdopen(handle, "wb", buffering=0)
        self._part = Path(name)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise local_error(self.path, error) from error

    def commit(self) -> None:
        """A link at ``path`` is replaced, not followed."""
        try:
            self._part.chmod(0o666 & ~_umask())
            self._file.close()
            self._part.replace(self.path)
        except OSError as error:
            raise local_error(self.path, error) from error

    def discard(self) -> None:
        """Idempotent; does nothing after ``commit``."""
        with suppress(OSError):  # what went wrong before is what the caller must hear
            self._file.close()
            self._part.unlink(missing_ok=True)


class LocalFile:
    """A file on this machine that is read."""

    def __init__(self, path: Path) -> None:
        """Raises ``LocalFileError``."""
        self._path = path
        try:
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise local_error(path, error) from error

    def read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise local_error(self._path, error) from error

    def close(self) -> None:
        self._file.close()


def _umask() -> int:
    """Asking for it means setting it for a moment; nothing that other threads make then gets more rights than usual."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def local_error(path: object, error: OSError) -> LocalFileError | OutOfSpace:
    """Translate a failure with a file of this machine."""
    if error.errno in _FULL:
        return OutOfSpace(f"{str(path)!r} on this machine: {error.strerror}", remedy="free some space")
    return LocalFileError(str(path), error)
