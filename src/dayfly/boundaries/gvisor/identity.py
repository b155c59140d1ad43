"""What must be the same where a snapshot is restored as where it was taken."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from dayfly.boundaries.gvisor.command import meminfo_file, runsc_flags
from dayfly.boundaries.gvisor.layout import Layout
from dayfly.boundaries.gvisor.oci import oci_config
from dayfly.boundaries.gvisor.skeleton import BOOT, mount_targets
from dayfly.boundaries.gvisor.start import Plan

__all__ = ["identity"]

_ANY = Path("/cell")
"""In the place of a cell's own directory."""


def identity(plan: Plan) -> Mapping[str, str]:
    """Condition -> value, each in the words of an error message. Raises ``OSError`` if the agent cannot be read."""
    return {
        "image": plan.spec.image.digest,
        "architecture": os.uname().machine,
        "runsc": plan.abilities.runsc.version,
        "CPU": _cpu_features(),
        "specification": _generated(plan),
        "agent": _digest(plan.spec.agent.read_bytes() + BOOT.read_bytes()),
    }


@cache
def _cpu_features() -> str:
    """A program may have chosen its code by what the CPU could do."""
    names = {"flags", "Features"}  # of x86 and of ARM
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text("ascii", "replace").splitlines())
    found = next((value.split() for name, _, value in lines if name.strip() in names), [])
    return _digest(" ".join(sorted(found)).encode())


def _generated(plan: Plan) -> str:
    """All that runsc is told, but for what is the cell's own: its directory, host uid and host name."""
    spec = replace(plan.spec, id="0" * 32, hostname="any")
    places = {source: _ANY / place.relative_to(plan.layout.cell) for source, place in plan.layout.places.items()}
    layout = Layout(_ANY, places)
    told = {
        "config": oci_config(spec, layout, 0 if plan.abilities.foreign else None),
        "flags": list(runsc_flags(plan.abilities, layout, spec.limits)),
        "mounts": {target: str(source) for target, source in mount_targets(spec).items()},
        "memory": meminfo_file(spec.limits),
        "cpus": plan.abilities.visible_cpus(spec.limits.cpus),
    }
    return _digest(json.dumps(told, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
