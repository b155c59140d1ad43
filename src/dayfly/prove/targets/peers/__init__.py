"""Targets by name. Each file is one, set up as its own makers recommend it for code that nobody trusts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dayfly.prove.targets.peers import bubblewrap, docker, e2b, gvisor_wheel, own, smolagents, subprocess
from dayfly.prove.targets.peers.means import Means
from dayfly.prove.targets.target import Target

__all__ = ["KINDS", "Means"]

KINDS: Mapping[str, Callable[[Means], Target]] = {
    "subprocess": subprocess.target,
    "bwrap": bubblewrap.target,
    "gvisor-wheel": gvisor_wheel.target,
    "smolagents": smolagents.target,
    "docker": docker.target,
    "e2b": e2b.target,
    "dayfly": own.target,
}
"""Each raises ``HostError`` where what it needs is not on this machine."""
