"""Kernels: stateful interpreters, several named ones per sandbox, and the runs in them.

Each language has a driver, a program in that language which runs inside the kernel's process, and a codec for what
agent and driver say to each other over a private socket. Drivers are as hostile as the code they run.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CODECS = {
    "python": "dayfly.agent.kernels.python:PythonCodec",
    "bash": "dayfly.agent.kernels.bash:BashCodec",
    "javascript": "dayfly.agent.kernels.node:NodeCodec",
}
"""Language -> "module:class" of its codec, which also knows how to start the driver."""

_PROGRAMS = {"bash": "bash", "javascript": "node"}
_PATH = "/usr/local/bin:/usr/bin:/bin"


def languages(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The languages that this image has a kernel for."""
    path = (environment or os.environ).get("PATH") or _PATH
    return tuple(name for name in CODECS if name not in _PROGRAMS or find_program(_PROGRAMS[name], path))


def find_program(name: str, path: str) -> str | None:
    """The full path of a program on ``path``."""
    for directory in path.split(":"):
        candidate = f"{directory}/{name}"
        if directory and os.access(candidate, os.X_OK):
            return candidate
    return None
