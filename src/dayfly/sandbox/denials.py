"""What one sandbox was denied, the last of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from dayfly.spec import Denial

__all__ = ["KEPT", "Denials"]

KEPT = 200
"""Denials that are remembered, for the runs that are under way. Whoever tries more is told of the last ones."""


class Denials:
    """``tell`` hears of each as it comes: the journal, the metrics."""

    def __init__(self) -> None:
        self.tell: Callable[[Denial], None] = lambda denial: None
        self._kept: deque[Denial] = deque(maxlen=KEPT)
        self._count = 0

    def add(self, denial: Denial) -> None:
        self._kept.append(denial)
        self._count += 1
        self.tell(denial)

    def mark(self) -> int:
        """Where it stands, for ``since``."""
        return self._count

    def since(self, mark: int) -> tuple[Denial, ...]:
        """Those that came after ``mark``, in order, equal ones counted together. Of runs that overlap each gets them all: who
        of them it was, nobody can tell."""
        if mark == self._count:
            return ()
        recent = list(self._kept)[max(0, len(self._kept) - (self._count - mark)) :]
        found: dict[Denial, int] = {}
        for denial in recent:
            single = replace(denial, count=1)
            found[single] = found.get(single, 0) + denial.count
        return tuple(replace(denial, count=count) for denial, count in found.items())
