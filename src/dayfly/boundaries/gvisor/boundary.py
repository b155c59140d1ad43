"""gVisor as a boundary: every cell has a kernel of its own, in user space, and no network device."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import Cell, Guarantees, ProbeReport
from dayfly.boundaries.gvisor import enforcement
from dayfly.boundaries.gvisor.abilities import Abilities, detect
from dayfly.boundaries.gvisor.cell import GvisorCell
from dayfly.boundaries.gvisor.guard import Caps
from dayfly.boundaries.gvisor.identity import identity
from dayfly.boundaries.gvisor.layout import lay_out
from dayfly.boundaries.gvisor.meter import Meter, SentryGone
from dayfly.boundaries.gvisor.probe import probe
from dayfly.boundaries.gvisor.start import Plan, Started, begin, find_sentry, read_back, spread_gofer, translate
from dayfly.boundaries.gvisor.sweep import sweep
from dayfly.boundaries.processes import in_spawner, own
from dayfly.boundaries.snapshot import Snapshot
from dayfly.errors import BoundaryUnusable, InputError
from dayfly.limits import Limits
from dayfly.paths import Paths, default_paths
from dayfly.spec import SandboxSpec

__all__ = ["GvisorBoundary"]

_ID = re.compile(r"[0-9a-f]{32}")
_HOSTNAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?")


class GvisorBoundary:
    """Cheap to make; finds out what the machine offers when it is first used. Safe from several loops and threads.

    ``paths`` says where cells lie; ``abilities`` replaces what would be detected. ``courteous`` ones let cells go first that
    use little CPU, and whoever else is on the machine.
    """

    name = "gvisor"

    def __init__(
        self, paths: Paths | None = None, abilities: Abilities | None = None, *, courteous: bool = False
    ) -> None:
        self._paths = paths or default_paths()
        self._courteous = courteous
        self._abilities = abilities
        self._found: tuple[int, ...] | None = None  # which runsc it was when they were detected
        self._detecting = threading.Lock()

    def __repr__(self) -> str:
        return f"<GvisorBoundary {self._paths.cells}>"

    @property
    def abilities(self) -> Abilities:
        """Detected again when another runsc lies there, or none: what the one before could do says nothing of it. Raises
        ``BoundaryUnusable``; that is not remembered, so what was mended is seen."""
        with self._detecting:
            known = self._abilities
            if known is None or self._found not in (None, _which(known.runsc.path)):
                self._abilities = None
                self._abilities = known = detect()
                self._found = _which(known.runsc.path)
            return known

    @property
    def guarantees(self) -> Guarantees:
        reports = enforcement.report(Limits(), self.abilities)
        return Guarantees(
            own_kernel=True,
            network_cut=True,
            read_only_mounts=True,
            separate_user=True,
            dies_with_host_process=True,
            freeze=True,
            snapshot=True,
            limits={limit.name: limit.enforcement for limit in reports},
        )

    def probe(self) -> ProbeReport:
        return probe(self._paths, lambda: self.abilities)

    def explain(self, spec: SandboxSpec) -> Mapping[str, Any]:
        """As ``open`` would have it; ``host_uid`` is chosen only then. Raises what ``open`` raises for a bad spec."""
        return self._plan(spec).explain(None)

    def sweep(self) -> int:
        return sweep(self._paths.cells)

    def identity(self, spec: SandboxSpec) -> Mapping[str, str]:
        return _identity(self._plan(spec))

    async def open(self, spec: SandboxSpec) -> Cell:
        return await self._start(self._plan(spec))

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> Cell:
        plan = replace(self._plan(spec), image=snapshot.directory)
        snapshot.require(await asyncio.to_thread(_identity, plan))  # it reads and digests the agent
        return await self._start(plan)

    async def _start(self, plan: Plan) -> Cell:
        spec = plan.spec
        started = await own(in_spawner(partial(begin, plan)), Started.abandon)
        try:
            sentry = await find_sentry(started.footprint)
            spread_gofer(plan, started.footprint)
            reports = read_back(plan, started.footprint, sentry)
            cpus = plan.abilities.visible_cpus(spec.limits.cpus)
            return GvisorCell(
                replace(plan, reports=reports),
                started,
                Meter(sentry, started.footprint.cgroup),
                Caps.of(spec.limits, enforcement.memory_cap(spec.limits), cpus),
            )
        except SentryGone as error:
            started.abandon()
            raise BoundaryUnusable(
                "the sandbox ended while it was being started", remedy="run: dayfly doctor"
            ) from error
        except OSError as error:
            started.abandon()
            raise translate(error) from error
        except BaseException:  # cancelled, or refused: nothing may be left
            started.abandon()
            raise

    def _refuse_own_data(self, source: Path) -> None:
        """Other sandboxes' files lie there, and for an ordinary user they are all one user's."""
        data, source = self._paths.data.resolve(), source.resolve()
        if source == data or source in data.parents or data in source.parents:
            raise InputError(f"the mount source {source} is, holds or lies in dayfly's own data", remedy="mount a copy")

    def _plan(self, spec: SandboxSpec) -> Plan:
        if not _ID.fullmatch(spec.id):
            raise InputError(f"a sandbox id is 32 hexadecimal digits: {spec.id!r}")
        if not _HOSTNAME.fullmatch(spec.hostname):
            raise InputError(f"not a hostname: {spec.hostname!r}")
        for mount in spec.mounts:
            self._refuse_own_data(mount.source)
        abilities = self.abilities
        reports = enforcement.report(spec.limits, abilities)
        enforcement.refuse_unenforced(spec, reports, abilities)
        return Plan(
            spec,
            abilities,
            lay_out(self._paths.cells, spec, foreign=abilities.foreign),
            reports,
            courteous=self._courteous,
        )


def _which(program: Path) -> tuple[int, ...]:
    """What changes when another file is put in its place; empty if there is none."""
    try:
        found = program.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _identity(plan: Plan) -> Mapping[str, str]:
    try:
        return identity(plan)
    except OSError as error:
        raise translate(error) from error
