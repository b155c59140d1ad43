"""Where a server keeps what must survive it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dayfly.paths import Paths, default_paths, make_directory
from dayfly.server.config import Configuration

__all__ = ["Places"]


@dataclass(frozen=True)
class Places:
    """``paths`` are those of everything else of dayfly's."""

    paths: Paths

    secrets: Path
    """What rules of the network name. No part of a backup."""

    directory: Path
    """Where what follows is kept."""

    @classmethod
    def of(cls, configuration: Configuration) -> Places:
        """Makes the directory, which only this user can enter. Raises ``HostError``."""
        data = configuration.data
        paths = default_paths() if data is None else Paths(data, data / "run")
        found = cls(paths, configuration.secrets or paths.secrets, paths.data / "server")
        make_directory(found.directory, 0o700)
        return found

    @property
    def state(self) -> Path:
        """Keys and tokens, and what is paused."""
        return self.directory / "state.db"

    @property
    def paused(self) -> Path:
        """Their memory, encrypted."""
        return self.directory / "paused"

    @property
    def journal(self) -> Path:
        return self.directory / "journal.db"

    @property
    def journal_key(self) -> Path:
        """Signs the heads of the journal."""
        return self.directory / "journal.key"
