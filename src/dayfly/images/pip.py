"""pip on this host: a file of its own, since who only asks for pip need not load how images are built."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

from dayfly.errors import HostError

__all__ = ["pip_command"]


def pip_command() -> list[str]:
    """How to call pip on this host. Raises ``HostError``."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if system and subprocess.run([system, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [system, "-m", "pip"]
    raise HostError(
        "pip is not installed", remedy="apt-get install python3-pip, or python -m ensurepip in this environment"
    )
