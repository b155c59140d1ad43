"""What targets need of this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dayfly.errors import HostError

__all__ = ["SHIMS", "Means"]

SHIMS = Path(__file__).parents[1] / "shims"

IMPORT_SECONDS = 60.0
"""For a Python to say whether it has a package."""


@dataclass(frozen=True)
class Means:
    """``python``: one that has the libraries of others. ``programs``: paths of programs by name, before those on the way. ``runsc``: for others;
    none: dayfly's own."""

    python: str = sys.executable
    programs: Mapping[str, str] = field(default_factory=dict)
    runsc: str = ""

    def program(self, name: str, package: str) -> str:
        """Its path. Raises ``HostError``."""
        found = self.programs.get(name) or shutil.which(name)
        if found is None:
            raise HostError(f"{name} is not installed", remedy=f"apt-get install {package}")
        return found

    def version_command(self, distribution: str) -> list[str]:
        """One that prints the version of a Python package, as it is installed. Raises ``HostError`` where it is not."""
        code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
        command = [self.python, "-I", "-c", code]
        done = subprocess.run(command, capture_output=True, timeout=IMPORT_SECONDS, check=False)
        if done.returncode:
            raise HostError(
                f"{self.python} has no package {distribution}", remedy=f"{self.python} -m pip install {distribution}"
            )
        return command

    def shim(self, name: str) -> list[str]:
        """The command line of one of the shims."""
        return [self.python, "-I", str(SHIMS / f"{name}.py")]

    @property
    def places(self) -> list[str]:
        """Paths that a shim needs."""
        return [str(Path(self.python).parents[1])]
