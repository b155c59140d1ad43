"""Descriptors that a forked child of the dayfly process must not keep.

A child that holds a copy of a pipe or of a lease would keep a cell from seeing end of file, or its directory from
being swept, for as long as it lives. ``os.fork`` ignores close-on-exec, so they are closed in the child by hand.
"""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["close", "keep_from_children"]

_private: set[int] = set()


def keep_from_children(descriptor: int) -> int:
    """Close ``descriptor`` in every child that is forked from now on. Returns it."""
    _private.add(descriptor)
    return descriptor


def close(descriptor: int) -> None:
    """Close a descriptor that was given to ``keep_from_children``."""
    _private.discard(descriptor)
    os.close(descriptor)


def _close_in_child() -> None:
    while _private:
        with suppress(OSError):  # somebody closed it behind our back: then the child does not hold it either
            os.close(_private.pop())


os.register_at_fork(after_in_child=_close_in_child)
