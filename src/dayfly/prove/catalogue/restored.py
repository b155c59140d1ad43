"""Restores of one snapshot, which warm spares are: they are two sandboxes, and nothing that one draws helps to guess what the other does."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(
    Probe, property=Property.CROSS_SANDBOX, severity=Severity.HIGH, place=Place.RESTORED, attempt="draw", seen_by=("both of them",),
    source="FC-SNAP, MMDS",
)  # fmt: skip

PROBES = (
    _one("cross-sandbox.restored.random", "Draw what another restore of the same snapshot draws", arguments={"drawn": ["random", "numpy", "temporary name"]}),
    _one("cross-sandbox.restored.keys", "Draw the same keys", arguments={"drawn": ["openssl", "secrets", "system", "authkey"]}),
    _one("cross-sandbox.restored.ids", "Draw the same ids", arguments={"drawn": ["uuid1", "uuid4", "node of uuid1"]}),
    _one("cross-sandbox.restored.machine", "Be the same machine", arguments={"drawn": ["machine id"]}),
)  # fmt: skip
