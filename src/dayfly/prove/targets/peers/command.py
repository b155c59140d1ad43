"""Any command line that takes a Python program on its standard input."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from dayfly.errors import InputError
from dayfly.prove.targets.target import Place, Target

__all__ = ["target"]


def target(line: str, *, elsewhere: bool) -> Target:
    """``elsewhere``: it leads to another machine. Raises ``InputError``."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"--command cannot be read: {error}", remedy="quote it as a shell would have it") from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise InputError(f"--command {line!r}: there is no such program", remedy="give a program and its arguments")
    return Target(
        name="command",
        command=[program, *words[1:]],
        version=[program, "--version"],
        configured=line,
        source="the command line",
        place=Place.ELSEWHERE if elsewhere else Place.BOX,
        needs=[str(Path(program).resolve().parent)],
        start_seconds=60.0,
    )
