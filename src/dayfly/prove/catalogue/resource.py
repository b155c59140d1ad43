"""Resources: every one has a hard limit."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.RESOURCE, severity=Severity.HIGH)

PROBES = tuple(
    _one(f"resource.hard.{short}", f"Have {title} without a hard limit, or raise it", attempt="privileges.unlimited",
         arguments={"names": [name]}, source="RB")
    for short, title, name in (
        ("core", "core files", "RLIMIT_CORE"),
        ("processes", "processes", "RLIMIT_NPROC"),
        ("files", "open files", "RLIMIT_NOFILE"),
        ("size", "one file's size", "RLIMIT_FSIZE"),
        ("data", "one process's memory", "RLIMIT_DATA"),
    )
)  # fmt: skip
