"""All probes. Ids are never given twice, and never changed: reports of different days are compared by them."""

from __future__ import annotations

from collections.abc import Collection

from dayfly.prove.catalogue import (
    alone,
    beside,
    boundary,
    callers,
    credential,
    delegated,
    filesystem,
    named,
    names,
    network,
    outside,
    protocol,
    resource,
    restored,
    supplied,
    useful,
)
from dayfly.prove.probe import Place, Probe, Property

__all__ = ["ALL", "chosen"]

ALL: tuple[Probe, ...] = (
    *names.PROBES,
    *delegated.PROBES,
    *network.PROBES,
    *named.PROBES,
    *supplied.PROBES,
    *boundary.PROBES,
    *outside.PROBES,
    *protocol.PROBES,
    *credential.PROBES,
    *filesystem.PROBES,
    *beside.PROBES,
    *restored.PROBES,
    *callers.PROBES,
    *resource.PROBES,
    *alone.PROBES,
    *useful.PROBES,
)


NEED_A_ZONE = (Place.DELEGATED, Place.DELEGATED_NAMED)


def chosen(properties: Collection[Property] = (), *, quick: bool = False, zone: bool = False) -> tuple[Probe, ...]:
    """Those of these properties (none: all), of the quick ones only, and without those that need a zone of the operator's unless there is
    one. What must work is always among them."""
    return tuple(
        probe
        for probe in ALL
        if (not properties or probe.property in properties or probe.property is Property.USEFUL)
        and (probe.quick or not quick)
        and (zone or probe.place not in NEED_A_ZONE)
    )
