"""Which probes are asked of other people's sandboxes: attempts that change nothing where no wall is in their way.

Law: what is in no table here is not asked. A new attempt is read with that question before it gets its line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dayfly.prove.catalogue import ALL
from dayfly.prove.probe import Place, Probe, Property

__all__ = ["HARMLESS", "LEFT_OUT", "asked"]

HARMLESS: Mapping[str, str] = {
    "files.above_the_root": "the root changes for a process that ends",
    "files.given_away": "an empty file, removed at once",
    "files.host_file": "reads the proof's own file",
    "files.made_in": "an empty file, removed at once",
    "files.present": "looks whether files are there, and reads none",
    "files.told_paths": "reads tables",
    "kernel.calls": "no kernel can follow their arguments",
    "kernel.devices": "opened for reading, and nothing read",
    "kernel.identity": "reads",
    "kernel.readable": "reads 64 bytes",
    "kernel.writable": "opened for writing, and nothing written",
    "leaks.sockets": "looks whether they are there",
    "leaks.value_anywhere": "reads for the proof's own value",
    "leaks.variables": "reads names",
    "network.asked_over_tcp": "connects to reserved and private addresses",
    "network.echoed": "an echo request to reserved and private addresses",
    "network.environment_pointing": "reads names",
    "network.families": "sockets that nothing is sent on",
    "network.interfaces": "reads",
    "network.many_tcp": "connects to reserved and private addresses, and says a mark",
    "network.queried": "asks for a reserved name",
    "network.raw_with_namespaces": "sockets that nothing is sent on",
    "network.resolved": "asks for reserved names",
    "network.reversed_name": "asks for reserved and private addresses",
    "network.routes": "reads",
    "network.told_resolvers": "reads",
    "network.udp": "a mark in a datagram to reserved and private addresses",
    "network.udp_answered": "a mark to the proof's own server",
    "network.unix": "connects, and says nothing",
    "privileges.capabilities": "reads",
    "privileges.identity_changed": "of a process that ends",
    "privileges.marked_files": "reads names and modes",
    "privileges.sudo": "runs true",
    "privileges.superuser": "reads",
    "privileges.unlimited": "limits of a process that ends",
    "processes.core": "a process that does nothing dies",
    "processes.left_open": "reads",
    "processes.named": "reads",
    "processes.programs": "reads",
    "processes.signalled": "the signal that is none, to the proof's own process",
    "useful.descriptors": "200 of them, closed at the end",
    "useful.files": "three small files, removed at once",
    "useful.loopback": "a server of its own",
    "useful.memory": "64 MiB, given back at the end",
    "useful.processes": "20 that do nothing",
    "useful.programs": "a sum",
    "useful.randomness": "reads",
    "useful.threads": "8 that do nothing",
}
"""Attempts, and why nothing changes if they get through."""

LEFT_OUT: Mapping[str, str] = {
    "boundary.agent.": "of dayfly's own agent",
    "boundary.call.bpf": "Linux looks at its arguments before it asks who is calling",
    "boundary.call.handles": "likewise",
    "boundary.call.perf": "likewise",
    "boundary.capabilities.bounding": "means nothing where no program can gain privileges, as Linux lets one say",
    "boundary.device.made": "makes a device",
    "boundary.mount.": "changes what others see, where it is allowed",
    "filesystem.changed.": "renames files of the system, where it is allowed",
    "filesystem.made.agent": "of dayfly's own agent",
    "network.listeners": "of dayfly's own agent",
    "protocol.": "of dayfly's own agent",
}
"""Beginnings of ids, and why."""


def asked(properties: Collection[Property] = ()) -> tuple[Probe, ...]:
    """Of these properties (none: all). What must work is always among them."""
    return tuple(
        probe
        for probe in ALL
        if probe.place is Place.CLOSED
        and probe.quick
        and probe.attempt in HARMLESS
        and not probe.id.startswith(tuple(LEFT_OUT))
        and (not properties or probe.property in properties or probe.property is Property.USEFUL)
    )
