"""Keyrings of the tests, for the process that asks them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

FILE = Path(os.environ.get("RING_OF_THE_TESTS", "/nonexistent"))


class Kept(KeyringBackend):
    """In a file."""

    priority = 5  # type: ignore[assignment]

    def _all(self) -> dict[str, str]:
        FILE.with_name("ring.environment").write_text(str(dict(os.environ)))
        found: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}
        return found

    def get_password(self, service: str, username: str) -> str | None:
        return self._all().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        FILE.write_text(json.dumps({**self._all(), f"{service} {username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        left = self._all()
        if left.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError("not there")
        FILE.write_text(json.dumps(left))


class Unfit(Kept):
    """As those that keep in plain text."""

    priority = 0.5  # type: ignore[assignment]


class Failing(Kept):
    def set_password(self, service: str, username: str, password: str) -> None:
        raise RuntimeError(f"cannot keep {password}")


class Waiting(Kept):
    """For a person, as one that is locked."""

    def set_password(self, service: str, username: str, password: str) -> None:
        FILE.write_text(str(os.getpid()))
        signal.pause()
