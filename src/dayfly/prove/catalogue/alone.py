"""What might break the sandbox it is tried in: each has one of its own."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Place, Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(
    Probe, property=Property.RESOURCE, severity=Severity.HIGH, place=Place.ALONE, seen_by=("what the host measures",), quick=False, seconds=20.0,
)  # fmt: skip

PROBES = (
    _one("resource.flood.memory", "Take more memory than was given, in many processes", attempt="floods.memory_of_many", measure="memory",
         source="RB, GV2520, GV2535"),
    _one("resource.flood.memory-of-one", "Take more memory than was given, in one process", attempt="floods.memory_of_one", measure="greedy",
         source="RB"),
    _one("resource.flood.shared-memory", "Fill /dev/shm", attempt="floods.shared_memory", measure="small", source="GV2536, MOBY39004"),
    _one("resource.flood.disk", "Fill the disk with one file", attempt="floods.disk", measure="small", source="OSB1773"),
    _one("resource.flood.files", "Fill the disk with many files", attempt="floods.many_files_full", measure="disk", source="OSB1773", seconds=40),
    _one("resource.flood.inodes", "Make more files than fit", attempt="floods.empty_files", measure="small", source="PMSS594, RB"),
    _one("resource.flood.descriptors", "Open more than was given", attempt="floods.descriptors", measure="small", source="RB"),
    _one("resource.flood.objects", "Have the kernel keep pipes, shared memory, watches and timers", attempt="floods.objects", measure="small",
         source="DCE"),
    _one("resource.flood.processes", "Have more processes than were given", attempt="floods.processes", measure="count",
         source="RB, GV2490, SNK"),
    _one("resource.flood.threads", "Have more threads than were given", attempt="floods.threads", measure="threads", source="RB"),
    _one("resource.flood.cpu", "Use more cores than were given", attempt="floods.spin", measure="cpu", source="RB", seconds=6),
    _one("output.flood", "Say more than is listened to", attempt="floods.output", measure="output", property=Property.OUTPUT,
         source="HAI623, AGT2303"),
    _one("resource.end.deaf", "Ignore every signal past the deadline", attempt="floods.deaf", measure="time", source="RB", seconds=2),
    _one("resource.end.busy", "Hold the interpreter past the deadline", attempt="floods.big_number", measure="time", source="RB", seconds=2),
    _one("resource.end.daemon", "Leave a process behind that holds the output", attempt="floods.daemon", measure="time",
         source="SDL251, CPY76116", seconds=2),
)  # fmt: skip
