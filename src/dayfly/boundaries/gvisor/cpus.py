"""Which of the host's CPUs a cell is bound to. The sandbox sees as many CPUs as it is bound to, and no others' load."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

__all__ = ["bind", "move", "release"]

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


def move(pid: int, target: Iterable[int]) -> None:
    """Bind every thread of the process to these CPUs, and so all that they start from now on. Raises ``OSError``."""
    moved: set[str] = set()
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        while left := set(os.listdir(f"/proc/{pid}/task")) - moved:  # noqa: PTH208 - plain strings are enough
            for thread in left:
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), target)
            moved |= left  # what one of them started before it was moved itself is found in the next round


def _forget() -> None:
    global _choosing
    _choosing = threading.Lock()
    _bound.clear()


os.register_at_fork(after_in_child=_forget)
