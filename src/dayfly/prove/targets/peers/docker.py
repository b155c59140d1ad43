"""Docker, or podman by its name: a container on the host's kernel, by a daemon that is outside of any box."""

from __future__ import annotations

import subprocess

from dayfly.errors import HostError
from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Place, Target

__all__ = ["WALLS", "target"]

DAEMON_SECONDS = 20.0
"""For a daemon to say its version."""

IMAGE = "python:3.12-slim"

WALLS = (
    "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534",
    "--pids-limit=256", "--memory=512m", "--env=HOME=/tmp", "--workdir=/tmp",
)  # fmt: skip
"""What OWASP's cheat sheet for Docker asks of a container, and caps."""


def target(means: Means) -> Target:
    """Raises ``HostError`` where no daemon answers."""
    program = means.program("docker", "docker.io")
    version = [program, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(version, capture_output=True, timeout=DAEMON_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        raise HostError("docker has no daemon that answers", remedy="start one, and pull " + IMAGE)
    return Target(
        name="docker",
        command=[program, "run", "--rm", "--interactive", *WALLS, IMAGE, "python3", "-"],
        version=version,
        configured=f"docker run {' '.join(WALLS)} {IMAGE}",
        source="OWASP's Docker Security Cheat Sheet",
        place=Place.HERE,
    )
