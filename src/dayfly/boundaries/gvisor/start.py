"""Starting a cell: a plan is decided first, then carried out; whatever fails, what was made is removed again."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayfly.boundaries.gvisor import cpus, enforcement
from dayfly.boundaries.gvisor.abilities import Abilities
from dayfly.boundaries.gvisor.command import meminfo_file, mount_table, start_command
from dayfly.boundaries.gvisor.directory import CellDirectory
from dayfly.boundaries.gvisor.footprint import Footprint
from dayfly.boundaries.gvisor.layout import Layout
from dayfly.boundaries.gvisor.oci import oci_config
from dayfly.boundaries.gvisor.skeleton import build_skeleton
from dayfly.boundaries.pipes import ChildEnds, PipeStream, open_stream
from dayfly.boundaries.processes import SYSTEM_PATH, Child, Program, children, start_ticks
from dayfly.boundaries.stderr import last_words
from dayfly.errors import BoundaryUnusable, DayflyError, HostError, LimitUnenforceable, OutOfSpace
from dayfly.spec import LimitReport, SandboxSpec

__all__ = ["Plan", "Started", "begin", "failure", "find_sentry", "read_back", "spread_gofer", "translate"]

START_SECONDS = 30.0
"""From starting runsc to its sentry's process: some 40 ms, and much more on a machine that starts fifty at once."""

_POLL_SECONDS = 0.003
"""Between looks for the sentry's process. The kernel tells nobody that a grandchild was started; a look takes 0.1 ms."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Plan:
    """All that was decided about a cell before anything was made."""

    spec: SandboxSpec
    abilities: Abilities
    layout: Layout
    reports: tuple[LimitReport, ...]
    image: Path | None = None  # to restore it from
    courteous: bool = False  # it may be told to step behind others

    @property
    def command(self) -> list[str]:
        return start_command(self.abilities, self.layout, self.spec, self.image)

    def config(self, uid: int | None) -> dict[str, Any]:
        return oci_config(self.spec, self.layout, uid)

    def files(self, uid: int | None) -> dict[Path, str]:
        layout = self.layout
        return {
            layout.bundle / "config.json": json.dumps(self.config(uid)),
            layout.meminfo: meminfo_file(self.spec.limits),
            layout.mounts: mount_table(layout, self.spec.image.rootfs),
        }

    def explain(self, uid: int | None) -> Mapping[str, Any]:
        return {
            "boundary": "gvisor",
            "runsc": {"path": str(self.abilities.runsc.path), "version": self.abilities.runsc.version},
            "command": self.command,
            "mounts": mount_table(self.layout, self.spec.image.rootfs).splitlines(),
            "config": self.config(uid),
            "host_uid": uid,
            "limits": [
                {"name": limit.name, "value": limit.value, "enforcement": limit.enforcement.value, "how": limit.how}
                for limit in self.reports
            ],
        }


@dataclass(frozen=True)
class Started:
    """A cell whose runsc runs."""

    footprint: Footprint
    stream: PipeStream

    def abandon(self) -> None:
        """End it and leave nothing. Blocks for some 10 ms."""
        self.stream.close()
        _undo(self.footprint)


def begin(plan: Plan) -> Started:
    """Make what the cell needs on the host and start runsc. In the spawner thread. Raises ``DayflyError``."""
    try:
        footprint = Footprint(CellDirectory.create(plan.layout, foreign=plan.abilities.foreign))
        try:
            return Started(footprint, _begin(plan, footprint))
        except BaseException:
            _undo(footprint)
            raise
    except OSError as error:
        raise translate(error) from error


def _undo(footprint: Footprint) -> None:
    with suppress(OSError):  # what cannot be removed now is for ``sweep``; why the cell is not to be is what counts
        footprint.clear()


def _begin(plan: Plan, footprint: Footprint) -> PipeStream:
    directory = footprint.directory
    home = plan.abilities.cgroups
    if home is not None:
        paths = {name: str(path) for name, path in home.paths(plan.layout.name).items()}
        directory.note(cgroup_version=home.version, cgroups=paths)
        footprint.cgroup = home.make(plan.layout.name, enforcement.cgroup_settings(plan.spec.limits))
    directory.fill(plan.files(directory.uid))
    build_skeleton(plan.layout.skeleton, plan.spec, secrets.token_hex(16))
    footprint.cpus = cpus.bind(plan.abilities.cpus, plan.abilities.visible_cpus(plan.spec.limits.cpus))
    stream, ends = open_stream()
    try:
        footprint.child = Child.start(_program(plan, footprint, ends))
        directory.note(pid=footprint.child.pid, started=start_ticks(footprint.child.pid) or 0)
    except BaseException:
        stream.close()
        raise
    finally:
        ends.close()
    return stream


def _program(plan: Plan, footprint: Footprint, ends: ChildEnds) -> Program:
    return Program(
        argv=plan.command,
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=footprint.stderr.descriptor,
        environment={"PATH": SYSTEM_PATH},  # nothing of the caller's: runsc would hand on what it is told to
        directory=Path("/"),
        cpus=footprint.cpus,
        batch=True,  # see docs/design.md: else gVisor spins for a scheduler's slice at every other page that it maps
    )


async def find_sentry(footprint: Footprint) -> int:
    """The pid of the sentry, once it runs. Raises ``DayflyError`` when runsc ends before, with its words."""
    child = footprint.child
    assert child is not None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_SECONDS
    while loop.time() < deadline:
        for pid in children(child.pid):
            if _is_sentry(pid) and footprint.adopt(pid):
                return pid
        if child.wait(0):
            code, _, said = footprint.reap()
            raise failure(code, last_words(said))
        await asyncio.sleep(_POLL_SECONDS)
    raise BoundaryUnusable(f"gVisor did not start within {START_SECONDS:g} s", remedy="see what loads this machine")


def _is_sentry(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"runsc-sandbox\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def spread_gofer(plan: Plan, footprint: Footprint) -> None:
    """Let the gofer use other CPUs than the cell's until the cell has started.

    It runs no guest code. Just while the sentry starts, it has some 17 ms of work of its own; with one CPU for both, the
    sentry would wait for that.
    """
    with suppress(OSError):  # this process may not move it: then it stays where it is
        footprint.move_gofer(plan.abilities.cpus)


def read_back(plan: Plan, footprint: Footprint, sentry: int) -> tuple[LimitReport, ...]:
    """Check that the running sentry is under the caps that were set. Raises ``LimitUnenforceable``, fails closed."""
    settings = enforcement.cgroup_settings(plan.spec.limits)
    try:
        if not os.sched_getaffinity(sentry) <= footprint.cpus:
            raise LimitUnenforceable(
                "the sandbox's process may use other CPUs than those it was bound to", remedy=_NOT_AS_SET
            )
        if footprint.cgroup is not None:
            if not footprint.cgroup.holds(sentry):
                raise LimitUnenforceable("the sandbox's process is not in its cgroup", remedy=_NOT_AS_SET)
            if wrong := footprint.cgroup.differing(settings):
                raise LimitUnenforceable(
                    f"cgroup values did not read back as set: {', '.join(wrong)}", remedy=_NOT_AS_SET
                )
    except OSError as error:
        text = f"the sandbox's limits cannot be read back: {error.strerror}"
        raise LimitUnenforceable(text, remedy=_NOT_AS_SET) from error
    return plan.reports


_NOT_AS_SET = "see what else on this machine moves processes or writes to their cgroups, then run: dayfly doctor"


_HINTS = (
    ("uid_map", "allow unprivileged user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu),"
     " or kernel.unprivileged_userns_clone=1 (Debian)"),
    ("unshare", "allow user namespaces: sysctl user.max_user_namespaces=10000, kernel.unprivileged_userns_clone=1 or"
     " kernel.apparmor_restrict_unprivileged_userns=0, whichever is there; in a container, --privileged"),
    ("permission denied", "check that other users may read the image and the agent"),
)  # fmt: skip


def failure(code: int, said: str) -> DayflyError:
    """The clear error for a runsc that ended before its time, with what it said."""
    text = f"gVisor could not start the sandbox (exit code {code}): {said or 'it said nothing'}"
    if "no space left" in said.lower() or "disk quota exceeded" in said.lower():
        return OutOfSpace(text, remedy="free some space, or set DAYFLY_DATA to another disk")
    remedy = next((hint for word, hint in _HINTS if word in said.lower()), "run: dayfly doctor")
    return BoundaryUnusable(text, remedy=remedy)


def translate(error: OSError) -> HostError:
    """The clear error for what the host refused."""
    where = f": {error.filename}" if error.filename else ""
    if error.errno in _FULL:
        return OutOfSpace(f"no space left{where}", remedy="free some space, or set DAYFLY_DATA to another disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return HostError("too many open files", remedy="raise the limit (ulimit -n), or close some sandboxes")
    if isinstance(error, FileExistsError):
        return HostError(f"a sandbox of that id exists already{where}", remedy="use a new id")
    return BoundaryUnusable(f"the sandbox could not be prepared: {error.strerror}{where}", remedy="run: dayfly doctor")
