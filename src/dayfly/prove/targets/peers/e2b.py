"""E2B: sandboxes of theirs, or of whoever ``E2B_API_URL`` names, by their own SDK."""

from __future__ import annotations

import os

from dayfly.errors import HostError
from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Place, Target

__all__ = ["target"]


def target(means: Means) -> Target:
    if not os.environ.get("E2B_API_KEY"):
        raise HostError(
            "E2B_API_KEY is not set", remedy="export the key of an account, or of a server that speaks their protocol"
        )
    version = means.version_command("e2b-code-interpreter")
    return Target(
        name="e2b",
        command=means.shim("e2b"),
        version=version,
        configured="Sandbox.create() with its defaults",
        source="e2b.dev/docs",
        place=Place.ELSEWHERE,
        start_seconds=60.0,
    )
