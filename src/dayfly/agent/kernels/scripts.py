"""The drivers that are not Python: files beside this one, which may be inside of a zip."""

from __future__ import annotations

import os

RUN_DIRECTORY = "/run/dayfly"
"""Where pid 1 puts what a program must find as a file: root's, and nobody else may write there."""


def source(name: str) -> str:
    """The text of a file of this package."""
    path = os.path.join(os.path.dirname(__file__), name)
    loader = globals()["__loader__"]
    content: bytes = loader.get_data(path)
    return content.decode("utf-8")


def installed(name: str, text: str) -> str:
    """The path of a file with ``text``, made on first use: in ``RUN_DIRECTORY``, or outside of a sandbox in $TMPDIR."""
    directory = RUN_DIRECTORY if os.getpid() == 1 else os.environ.get("TMPDIR", "/tmp")
    path = f"{directory}/{name}"
    if not os.path.exists(path):
        os.makedirs(directory, mode=0o755, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
    return path
