"""dayfly itself, by the same way as all others: ``dayfly run -``, as an ordinary user whose caps are watched and not enforced."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from dayfly.images import Store
from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target
from dayfly.runtime import find_runsc

__all__ = ["target"]

IMAGE = "python"

_HOME = "/home/agent"  # of the box
_IMAGES = f"{_HOME}/.local/share/dayfly/images"
_RUNSC = f"{_HOME}/bin/runsc"
_HELPERS = "gvisor-bin"
"""Beside the runsc of current releases."""


def target(means: Means) -> Target:
    """Raises ``HostError``, ``ImageNotFound`` among them."""
    image = Store().resolve(IMAGE).rootfs.parent
    place = f"{_IMAGES}/{image.name}"
    texts = {f"{place}/{path.name}": path.read_text("utf-8") for path in image.iterdir() if path.is_file()}
    runsc = find_runsc()
    dayfly = [sys.executable, "-I", "-m", "dayfly"]
    return Target(
        name="dayfly",
        command=[*dayfly, "run", "--image", IMAGE, "-"],
        version=[*dayfly, "--version"],
        configured=f"dayfly run --image {IMAGE} - with its defaults, runsc {runsc.version}",
        source="docs/cli.md",
        files=texts,
        copies=_copies(runsc.path.resolve()),
        links={f"{_IMAGES}/names/{IMAGE}": f"../{image.name}"},
        binds={f"{place}/rootfs": str(image / "rootfs")},
        environment={"DAYFLY_RUNSC": _RUNSC},
    )


def _copies(runsc: Path) -> Mapping[str, str]:
    """dayfly starts none that belongs to somebody else, as all of this machine does in a box."""
    helpers = runsc.with_name(_HELPERS)
    return {_RUNSC: str(runsc), **({f"{_HOME}/bin/{_HELPERS}": str(helpers)} if helpers.is_dir() else {})}
