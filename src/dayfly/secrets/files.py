"""The store's own files: a directory that only this user can enter (0700), and in it a file for each secret (0600).

Laws: what others could read or write, what belongs to somebody else and what is a link is not used. A file is whole or not there.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pydantic import SecretStr

from dayfly.errors import HostError, InputError
from dayfly.owner import NOBODY, Owner
from dayfly.paths import host_error, make_directory
from dayfly.secrets.entry import Entry
from dayfly.secrets.value import LONGEST_VALUE, checked_value

__all__ = ["MOST_SECRETS", "Files", "StoreProblem"]

MOST_SECRETS = 10_000
"""Files: a mistake in a loop is not to fill the disk."""

_MOST_BYTES = 64 * 1024 + 12 * LONGEST_VALUE  # hosts, names and the longest value, each character as two escapes
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StoreProblem(HostError):
    """A file, or what else has a value, cannot be used. ``clause`` says why without where: its subject is the secret."""

    def __init__(self, message: str, *, clause: str, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.clause = clause


class Files:
    """Everything raises ``HostError``. The directory need not be there; ``write`` makes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Files: {self.directory}>"

    def find(self, name: str, owner: Owner) -> Entry | None:
        """The one of exactly this owner. Raises ``StoreProblem``."""
        found = self._load(_file_name(name, owner))
        return found[0] if found else None

    def value(self, entry: Entry) -> SecretStr | None:
        """``None`` where it is elsewhere, or gone. Raises ``StoreProblem``."""
        found = self._load(_file_name(entry.name, entry.owner))
        return found[1] if found else None

    def all(self) -> tuple[list[Entry], list[StoreProblem]]:
        """By name, and what cannot be used."""
        entries, problems = [], []
        for name in self._names():
            try:
                found = self._load(name)
            except StoreProblem as problem:
                problems.append(problem)
            else:
                entries += [found[0]] if found else []
        return sorted(entries, key=lambda one: (one.name, one.tenant or "", one.conversation or "")), problems

    def write(self, entry: Entry, value: SecretStr | None) -> None:
        """In the place of the one with the same name and owner. Raises ``InputError``, too."""
        make_directory(self.directory.parent)
        make_directory(self.directory, 0o700)
        with self._opened():
            pass
        name = _file_name(entry.name, entry.owner)
        names = self._names()
        if len(names) >= MOST_SECRETS and name not in names:
            raise InputError(f"there are {MOST_SECRETS} secrets already", remedy="remove one: dayfly secrets rm NAME")
        try:
            _write(self.directory / name, SecretStr(_text(entry, value)))
        except OSError as error:
            raise host_error(error, f"cannot write {self.directory / name}") from None

    def remove(self, name: str, owner: Owner) -> bool:
        """Whether it was there."""
        try:
            (self.directory / _file_name(name, owner)).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise host_error(error, f"cannot remove the secret {name}") from error
        return True

    def _names(self) -> list[str]:
        with self._opened() as directory:
            names = [] if directory is None else os.listdir(directory)  # noqa: PTH208 - it is a descriptor
        return [one for one in names if not one.startswith(".")]

    def _load(self, name: str) -> tuple[Entry, SecretStr | None] | None:
        path = self.directory / name
        content = self._content(name)
        if content is None:
            return None
        found = _parsed(content)
        if found is None or _file_name(found[0].name, found[0].owner) != name:
            raise StoreProblem(
                f"{path} is not as dayfly wrote it", clause="is damaged", remedy="dayfly secrets set writes it anew"
            )
        return found

    def _content(self, name: str) -> SecretStr | None:
        """Of a file that only this user can read."""
        path = self.directory / name
        with self._opened() as directory:
            if directory is None:
                return None
            try:
                descriptor = os.open(name, _READ, dir_fd=directory)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise _unusable(path, error) from None
            with os.fdopen(descriptor, "rb") as file:
                _refuse_foreign(path, os.fstat(descriptor), "file", 0o600)
                return _read(file.fileno())

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The directory, as a descriptor; ``None`` where there is none."""
        try:
            directory = os.open(self.directory, _READ | os.O_DIRECTORY)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise _unusable(self.directory, error) from None
        try:
            _refuse_foreign(self.directory, os.fstat(directory), "directory", 0o700)
            yield directory
        finally:
            os.close(directory)


def _file_name(name: str, owner: Owner) -> str:
    """No secret's name has an ``@``, nor begins with a dot."""
    if owner == NOBODY:
        return name
    whose = json.dumps([owner.tenant, owner.conversation])
    return f"{name}@{sha256(whose.encode()).hexdigest()[:32]}"


def _refuse_foreign(path: Path, found: os.stat_result, kind: str, mode: int) -> None:
    right = stat.S_ISREG(found.st_mode) if kind == "file" else stat.S_ISDIR(found.st_mode)
    if not right:
        raise StoreProblem(
            f"{path} is no {kind}", clause=f"is kept in what is no {kind}", remedy="remove it, and set the secret again"
        )
    if found.st_uid != os.geteuid():
        raise StoreProblem(
            f"{path} belongs to another user",
            clause=f"is kept in a {kind} of another user",
            remedy="remove it, and set the secret again",
        )
    if found.st_mode & 0o077:
        raise StoreProblem(
            f"others can use {path}: its mode is {stat.S_IMODE(found.st_mode):o}",
            clause=f"is kept in a {kind} that others can use",
            remedy=f"give out a new value where others may have read it; then chmod {mode:o} {path}",
        )


def _unusable(path: Path, error: OSError) -> StoreProblem:
    what = "a link" if error.errno in (errno.ELOOP, errno.ENOTDIR) else f"not to be read: {error.strerror}"
    return StoreProblem(
        f"{path} is {what}",
        clause="cannot be read from its store",
        remedy=f"see whether {path} is a plain one of yours",
    )


def _read(descriptor: int) -> SecretStr:
    """Of what is longer than any that is right, nothing: that is damaged, too."""
    pieces, left = [], _MOST_BYTES
    while left and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return SecretStr(b"".join(pieces).decode("utf-8", "replace") if left else "")


def _text(entry: Entry, value: SecretStr | None) -> str:
    kept = entry.model_dump(mode="json", exclude_none=True)
    return json.dumps(kept if value is None else {**kept, "value": value.get_secret_value()}, indent=1) + "\n"


def _parsed(content: SecretStr) -> tuple[Entry, SecretStr | None] | None:
    """``None`` for what is no such file: an error would carry the text along."""
    try:
        kept = json.loads(content.get_secret_value())
        value = kept.pop("value", None)
        secret = None if value is None else checked_value(SecretStr(value))
        entry = Entry.model_validate(kept)
    except (ValueError, AttributeError, TypeError, RecursionError, InputError):
        return None
    return (
        (entry, secret) if (secret is None) is (entry.source == "keyring") and entry.source != "environment" else None
    )


def _write(path: Path, text: SecretStr) -> None:
    """0600 from its first moment, and on the disk before it has the name."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)  # a umask may have left less
            file.write(text.get_secret_value())
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
