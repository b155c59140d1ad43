"""A process of which something is used up."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

LEAST = {resource.RLIMIT_NOFILE: 1}  # the kernel does not even poll more descriptors than the limit


@contextmanager
def none_left(kind: int) -> Iterator[None]:
    """With nothing left of that resource of this process. What it has already, it keeps."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (LEAST.get(kind, 0), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
