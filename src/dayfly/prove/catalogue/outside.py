"""What the host sees of the sandbox's own processes, while it is alive."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(
    Probe, property=Property.BOUNDARY, severity=Severity.HIGH, place=Place.OUTSIDE, seen_by=("/proc of this machine",),
    source="GVP",
)  # fmt: skip

PROBES = (
    _one("boundary.posture.user", "gVisor's processes are root on this machine", attempt="superuser"),
    _one("boundary.posture.gains", "gVisor's processes can gain privileges", attempt="gains"),
    _one("boundary.posture.calls", "gVisor's processes may make any system call", attempt="unfiltered"),
    _one("boundary.posture.network", "gVisor's processes share this machine's network", attempt="shares_network"),
    _one("boundary.posture.namespaces", "gVisor's processes share this machine's users or mounts", attempt="shares_users"),
    _one("boundary.posture.devices", "gVisor's processes have a network device", attempt="devices"),
    _one("boundary.posture.root", "gVisor's kernel sees files of this machine", attempt="sees"),
    _one("boundary.posture.holds", "gVisor's processes hold files that are not the sandbox's", attempt="holds"),
    _one("resource.posture.cgroup", "A process of the sandbox is outside of its cgroups, or bound to more CPUs", attempt="under_its_caps", property=Property.RESOURCE),
    _one("resource.posture.limits", "A limit of the policy is not kept", attempt="kept", property=Property.RESOURCE),
)  # fmt: skip
