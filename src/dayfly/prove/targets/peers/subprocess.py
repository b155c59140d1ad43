"""A bare subprocess: no wall at all, what a framework does that "runs Python locally"."""

from __future__ import annotations

from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target

__all__ = ["target"]


def target(means: Means) -> Target:
    """Whichever Python the box has on its way."""
    return Target(
        name="subprocess",
        command=["python3", "-"],
        version=["python3", "--version"],
        configured="python3 -, nothing around it",
        source="docs.python.org/3/library/subprocess.html: it makes no promise",
    )
