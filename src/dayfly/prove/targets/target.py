"""A sandbox that somebody else made, as a command line that takes a Python program on its standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Place", "Target"]


class Place(StrEnum):
    """Where it runs, which says what the judge can see of it."""

    BOX = "box"  # in the disposable machine: whatever leaves a sandbox is seen
    HERE = "here"  # on this machine, as its own daemon has it: what comes to this machine's loopback is seen
    ELSEWHERE = "elsewhere"  # on another machine: nothing is seen, everything is claimed


@dataclass(frozen=True)
class Target:
    """``command``: its whole command line. ``version``: one that prints its own version. ``configured``: how it is set up, for people, and
    ``source``: whose recommendation that is. ``needs``: paths that must be visible in the box. ``files``: texts by path, that the box has for it,
    ``links``: where links lead by path, and ``copies``: files of this machine by path. ``binds``: directories of this machine's that only their owner may enter, by path.
    ``environment``: more variables, of whoever starts it. ``start_seconds``: for a run beyond what its attempt takes."""

    name: str
    command: Sequence[str]
    version: Sequence[str]
    configured: str
    source: str
    place: Place = Place.BOX
    needs: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float = 20.0
