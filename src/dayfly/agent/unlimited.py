"""In a Python kernel: what it starts does not inherit its soft RLIMIT_AS (see memory.py), which node and others die of.

The functions that make a process lift the limit around the very call: a new process takes over the limits of that moment.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

NO_LIMIT_YET = 1 << 46
"""Bytes: more than there can be, but a limit. So that none at all always means: something is being started."""

BREATH = 4 * 1024 * 1024
"""Bytes: a traceback's text, an answer, the buffer for the next request."""

MAX_BREATHS = 20
"""For one piece of the kernel's own work: a request and an answer have a few MiB at most."""

SPAWNING = ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")


def start_unlimited() -> None:
    """Wrap what starts processes, once, before any code of the user runs."""
    import _posixsubprocess
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (NO_LIMIT_YET, hard))
    for name in SPAWNING:
        if hasattr(os, name):
            setattr(os, name, _wrapped(getattr(os, name)))
    _posixsubprocess.fork_exec = _wrapped(_posixsubprocess.fork_exec)


def breathe() -> None:
    """After a MemoryError: a little more, to tell of it. The guard takes it back at its next look."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_AS, (soft + BREATH, hard))


def breathing(work: Callable[[], T]) -> T:
    """The kernel's own work, which may be done again from its beginning: a cell that has taken all memory, or a guard that
    has just lowered the limit, does not end it."""
    for _ in range(MAX_BREATHS):
        try:
            return work()
        except MemoryError:
            breathe()
    return work()


def _wrapped(spawn: Callable[..., Any]) -> Callable[..., Any]:
    import resource

    which, limits = resource.RLIMIT_AS, resource

    def start(*arguments: Any, **options: Any) -> Any:
        soft, hard = limits.getrlimit(which)
        if soft == hard:
            return spawn(*arguments, **options)
        limits.setrlimit(which, (hard, hard))
        me = os.getpid()
        try:
            return spawn(*arguments, **options)
        finally:
            if os.getpid() == me:  # the child of a fork keeps what it got
                limits.setrlimit(which, (soft, hard))

    start.__name__ = start.__qualname__ = getattr(spawn, "__name__", "start")
    start.__doc__ = spawn.__doc__
    return start
