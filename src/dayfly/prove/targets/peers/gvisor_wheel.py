"""gVisor's own Python package, which starts a runsc of this machine."""

from __future__ import annotations

from pathlib import Path

from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target
from dayfly.runtime import find_runsc, inspect_runsc

__all__ = ["target"]


def target(means: Means) -> Target:
    version = means.version_command("gvisor")
    found = inspect_runsc(Path(means.runsc)) if means.runsc else find_runsc()
    runsc = found.path.resolve()
    return Target(
        name="gvisor-wheel",
        command=means.shim("gvisor_wheel"),
        version=version,
        configured=f"gvisor.Sandbox() with its defaults, HOME=/tmp and a tmpfs on /dev/shm, runsc {found.version}",
        source="the package's own docstrings: network none is its default",
        needs=[*means.places, str(runsc.parent)],
        environment={"RUNSC_PATH": str(runsc)},
    )
