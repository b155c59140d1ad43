"""Docker, or podman by its name: a container on the host's kernel, by a daemon that is outside of any box."""

from __future__ import annotations

from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Place, Target

__all__ = ["WALLS", "target"]

IMAGE = "python:3.12-slim"

WALLS = (
    "--network=none", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534",
    "--pids-limit=256", "--memory=512m", "--env=HOME=/tmp", "--workdir=/tmp",
)  # fmt: skip
"""What OWASP's cheat sheet for Docker asks of a container, and caps."""


def target(means: Means) -> Target:
    program = means.program("docker", "docker.io")
    return Target(
        name="docker",
        command=[program, "run", "--rm", "--interactive", *WALLS, IMAGE, "python3", "-"],
        version=[program, "version", "--format", "{{.Server.Version}}"],
        configured=f"docker run {' '.join(WALLS)} {IMAGE}",
        source="OWASP's Docker Security Cheat Sheet",
        place=Place.HERE,
    )
