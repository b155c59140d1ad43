"""How a build tells what it does. The builder prints nothing; a door renders these events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Progress", "Stage", "Step", "silent"]


class Stage(StrEnum):
    RESOLVE = "resolve"  # which packages, which versions
    DOWNLOAD = "download"
    UNPACK = "unpack"
    WHEELS = "wheels"
    FINISH = "finish"  # accounts, certificates, linker cache, rights
    COMPILE = "compile"  # byte code
    WARM = "warm"  # caches of libraries, in a throw-away sandbox


@dataclass(frozen=True)
class Step:
    """``done`` of ``total`` in the stage's own unit (bytes for downloads, packages else); ``None``: not known yet."""

    stage: Stage
    done: int = 0
    total: int | None = None
    detail: str = ""


Progress = Callable[[Step], None]
"""Called in the building thread; must be quick and must not raise."""


def silent(step: Step) -> None:
    """A ``Progress`` that shows nothing."""
