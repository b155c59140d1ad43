"""Downloads, kept by the SHA-256 of their content. What is not what its name says is never handed out."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from dayfly.errors import HostError
from dayfly.paths import host_error, make_directory

__all__ = ["Cache", "sha256_of"]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """Files under ``directory``, shared by concurrent builds: an entry appears whole, by a rename, or not at all."""

    def __init__(self, directory: Path) -> None:
        self._directory = make_directory(directory)

    def _path(self, sha256: str) -> Path:
        return self._directory / sha256

    def find(self, sha256: str) -> Path | None:
        """The file with that content, or ``None``. A damaged entry is removed."""
        path = self._path(sha256)
        if not path.is_file():
            return None
        if sha256_of(path) == sha256:
            return path
        path.unlink(missing_ok=True)
        return None

    def get(self, sha256: str) -> Path:
        path = self.find(sha256)
        if path is None:
            raise HostError("a download vanished from the cache during the build", remedy="try again")
        return path

    def add(self, path: Path, sha256: str) -> Path:
        """Move ``path`` into the cache. Raises ``HostError`` if its content is not what was promised."""
        if not path.is_file():
            raise HostError(f"{path.name} was not downloaded", remedy="try again")
        if sha256_of(path) != sha256:
            path.unlink()
            raise HostError(
                f"{path.name} is not the file that the index describes", remedy="try again; check the mirror"
            )
        try:
            return self._take(path, sha256)
        except OSError as error:
            raise host_error(error, f"cannot keep {path.name}") from error

    def _take(self, path: Path, sha256: str) -> Path:
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".new-")
        os.close(handle)
        try:
            shutil.copyfile(path, name)
            Path(name).chmod(0o644)
            return Path(name).replace(self._path(sha256))
        finally:
            Path(name).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
