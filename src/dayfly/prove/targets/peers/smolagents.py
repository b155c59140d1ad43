"""smolagents' executor of Python in its own process: an interpreter, and by its makers' own words no boundary."""

from __future__ import annotations

from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target

__all__ = ["target"]


def target(means: Means) -> Target:
    version = means.version_command("smolagents")
    return Target(
        name="smolagents",
        command=means.shim("smolagents_local"),
        version=version,
        configured="LocalPythonExecutor, no import authorised besides its defaults",
        source="smolagents' tutorial on secure code execution: no local interpreter is completely safe",
        needs=means.places,
    )
