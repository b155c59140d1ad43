"""A paused sandbox, as it is remembered while it is not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dayfly.manager.sealing import Sealed
from dayfly.owner import Owner
from dayfly.policy import Policy
from dayfly.spec import LimitReport

__all__ = ["FOR_NOBODY", "KeptFor", "Paused", "Records", "Remembered"]


@dataclass(frozen=True)
class KeptFor:
    """Whose it is, and what else its registration goes on with; ``created`` in seconds since 1970. It is no ``Owner`` itself: those are
    compared, and this one would be equal to none."""

    tenant: str = ""
    conversation: str | None = None
    template: str | None = None
    created: float = 0.0

    @property
    def whose(self) -> Owner:
        return Owner(self.tenant, self.conversation)


FOR_NOBODY = KeptFor()


@dataclass(frozen=True)
class Paused:
    """``image`` and ``agent`` are what it needs to go on. Times are in seconds: ``expires`` since 1970; ``lived`` and ``left``
    of its life, of which the pause is no part; ``cpu_seconds`` that it has used. ``runs``: how many the journal has counted.
    """

    id: str
    owner: KeptFor
    policy: Policy
    image: str
    agent: Path
    sealed: Sealed
    expires: float
    cpu_seconds: float
    lived: float
    left: float
    runs: int
    languages: tuple[str, ...]
    limits: tuple[LimitReport, ...]


class Records(Protocol):
    """Remembers paused sandboxes, their keys too. Raises ``HostError``. Blocks."""

    def put(self, paused: Paused) -> None: ...
    def remove(self, sandbox: str) -> None:
        """Idempotent."""
        ...

    def all(self) -> Iterable[Paused]: ...


class Remembered:
    """``Records`` in this process's memory: with it, the keys are gone."""

    def __init__(self) -> None:
        self._all: dict[str, Paused] = {}

    def put(self, paused: Paused) -> None:
        self._all[paused.id] = paused

    def remove(self, sandbox: str) -> None:
        self._all.pop(sandbox, None)

    def all(self) -> Iterable[Paused]:
        return list(self._all.values())
