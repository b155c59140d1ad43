"""What must work: a wall that lets nothing through proves nothing."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Expected, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.USEFUL, severity=Severity.MEDIUM, expected=Expected.ALLOWED, source="INS, RL")

PROBES = (
    _one("useful.programs", "Run a program", attempt="useful.programs"),
    _one("useful.threads", "Run threads", attempt="useful.threads"),
    _one("useful.files", "Write and read files", attempt="useful.files", arguments={"places": ["~", "/tmp", "/dev/shm"]}),
    _one("useful.loopback", "Speak to a server of one's own", attempt="useful.loopback"),
    _one("useful.randomness", "Draw at random, and have TLS", attempt="useful.randomness"),
    _one("useful.descriptors", "Open 200 files", attempt="useful.descriptors", arguments={"number": 200}),
    _one("useful.memory", "Use 64 MiB of memory", attempt="useful.memory", arguments={"megabytes": 64}),
    _one("useful.processes", "Run 20 processes at once", attempt="useful.processes", arguments={"number": 20}, seconds=30),
)  # fmt: skip
