"""Which of the host's CPUs a cell is bound to. The sandbox sees as many CPUs as it is bound to, and no others' load."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable

__all__ = ["bind", "release"]

_choosing = threading.Lock()
_bound: Counter[int] = Counter()


def bind(available: Iterable[int], count: int) -> frozenset[int]:
    """The ``count`` CPUs that the fewest live cells of this process are bound to; among equals, any."""
    with _choosing:
        shuffled = random.sample(sorted(available), len(set(available)))  # other processes have cells too
        chosen = frozenset(sorted(shuffled, key=lambda cpu: _bound[cpu])[:count])
        _bound.update(chosen)
        return chosen


def release(chosen: Iterable[int]) -> None:
    with _choosing:
        _bound.subtract(chosen)


def _forget() -> None:
    global _choosing
    _choosing = threading.Lock()
    _bound.clear()


os.register_at_fork(after_in_child=_forget)
