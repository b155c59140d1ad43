"""What a run of the command line may have left behind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Dayfly = Callable[..., subprocess.CompletedProcess[str]]
"""Runs the command line to its end; see ``conftest.dayfly``."""


def leftovers(data: Path) -> list[str]:
    """Cells, mounts and processes of this data directory."""
    found = [str(path) for path in (data / "cells").glob("*")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"{data}/" in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if f"{data}/".encode() in line:
            found.append(line.decode("utf-8", "replace"))
    return found
