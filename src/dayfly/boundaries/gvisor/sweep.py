"""Removing what dead dayfly processes left: by their leases, never touching what a live one holds."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dayfly.boundaries.gvisor.cgroups import CellCgroup
from dayfly.boundaries.gvisor.directory import CellDirectory, Record, abandoned, boot_id
from dayfly.boundaries.gvisor.footprint import GONE_SECONDS, remove_traces
from dayfly.boundaries.gvisor.layout import Layout
from dayfly.boundaries.processes import signal_process, start_ticks, wait_gone

__all__ = ["sweep"]


def sweep(cells: Path) -> int:
    """How many cells were removed. Raises ``OSError`` if one cannot be; the others are removed all the same."""
    count = 0
    failure: OSError | None = None
    for directory in abandoned(cells):
        try:
            _clear(directory)
            count += 1
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return count


def _clear(directory: CellDirectory) -> None:
    try:
        record = Record.read(directory.layout.record)
        if record is not None and record.boot == boot_id():
            _end_processes(record, directory.layout)
        _remove(directory, record)
    finally:
        directory.leave()


def _end_processes(record: Record, layout: Layout) -> None:
    """The kernel has killed them with their dayfly; this is for what it has not managed to yet."""
    signal_process(record.pid, record.started, signal.SIGKILL)
    for pid, started in list(_named(layout)):
        signal_process(pid, started, signal.SIGKILL)
        if start_ticks(pid) == started:
            wait_gone([pid], GONE_SECONDS)


def _named(layout: Layout) -> Iterator[tuple[int, int]]:
    """Processes of runsc that have this cell's ``--root`` in their command line; pid and start."""
    flag = b"--root=" + os.fsencode(layout.root)
    for name in os.listdir("/proc"):  # noqa: PTH208 - plain strings are enough
        if name.isdigit() and (started := start_ticks(int(name))) is not None:
            with suppress(OSError):  # it has ended meanwhile
                if flag in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                    yield int(name), started


def _remove(directory: CellDirectory, record: Record | None) -> None:
    cgroup = None
    if record is not None and record.cgroups:
        cgroup = CellCgroup(record.cgroup_version, {name: Path(path) for name, path in record.cgroups.items()})
    remove_traces(directory, cgroup)
