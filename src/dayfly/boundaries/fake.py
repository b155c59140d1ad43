"""A boundary that separates nothing: the agent as an ordinary process of this user. For fast tests of what lies above.

It keeps the contract's shape (one stream, an end, nothing left of what it started) and none of its promises. Root's agent
sees the machine's disks read-only, its scratch directory aside (fake.sh): not a wall, which root can take down, but a test
that goes wrong must not damage the machine that runs it. Left out are file systems in memory (tmpfs: /run, /dev/shm, often
/tmp) and the kernel's own (/proc, /sys, cgroups): the agent may write there what its user may.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dayfly.boundaries import forks
from dayfly.boundaries.base import Cell, CellEnd, Guarantees, ProbeReport
from dayfly.boundaries.life import CellLife
from dayfly.boundaries.pipes import ChildEnds, PipeStream, open_stream
from dayfly.boundaries.processes import SYSTEM_PATH, Child, Program, children, in_spawner, own, start_ticks, wait_gone
from dayfly.boundaries.snapshot import Snapshot
from dayfly.boundaries.stderr import Stderr, last_words
from dayfly.errors import BoundaryUnusable, InputError, LimitUnenforceable
from dayfly.spec import EndReason, Enforcement, LimitReport, SandboxSpec, Usage

__all__ = ["FakeBoundary"]

_LIMITS = ("memory", "cpus", "processes", "disk", "shm", "cpu_seconds", "open_files")

_PREFIX = "dayfly-fake-"

_GUARD = Path(__file__).with_name("fake.sh")

_GONE_SECONDS = 5.0
"""How long killed processes may take to disappear."""

_TRIAL_SECONDS = 3.0
"""For ``unshare``, which takes milliseconds."""

_TICKS = os.sysconf("SC_CLK_TCK")


class FakeBoundary:
    """``trusted_code=True`` says that you wrote the code that will run, and that it may do to this machine what you may.

    ``directory`` is where scratch directories are made (the system's temporary directory).
    """

    name = "fake"

    def __init__(self, *, trusted_code: bool = False, directory: Path | None = None) -> None:
        self._trusted_code = trusted_code
        self._directory = (directory or Path(tempfile.gettempdir())).resolve()  # as the table of mounts names it
        self._tried = False

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            own_kernel=False,
            network_cut=False,
            read_only_mounts=False,
            separate_user=False,
            dies_with_host_process=True,
            limits=dict.fromkeys(_LIMITS, Enforcement.UNENFORCED),
            trusted_for="nothing",
        )

    def probe(self) -> ProbeReport:
        lack = _lack()
        if lack is not None:
            return ProbeReport(False, (lack.message,), (lack.remedy or "",))
        return ProbeReport(True, ("it separates nothing",), ("use the boundary gvisor",), {"python": sys.executable})

    def explain(self, spec: SandboxSpec) -> Mapping[str, Any]:
        return {"boundary": "fake", "command": _command(spec, "SCRATCH"), "limits": []}

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> Cell:
        raise _no_snapshots()

    def identity(self, spec: SandboxSpec) -> Mapping[str, str]:
        return {}

    def sweep(self) -> int:
        found = [_Scratch.abandoned(path) for path in sorted(self._directory.glob(f"{_PREFIX}*"))]
        scratches = [scratch for scratch in found if scratch is not None]
        for scratch in scratches:
            scratch.remove()
        return len(scratches)

    async def open(self, spec: SandboxSpec) -> Cell:
        if not self._trusted_code:
            raise BoundaryUnusable(
                "the fake boundary separates nothing, and this code is not said to be trusted",
                remedy="use the boundary gvisor; in tests of code that you wrote: FakeBoundary(trusted_code=True)",
            )
        if spec.strict:
            raise LimitUnenforceable("the policy is strict, and the fake boundary keeps no limit", remedy="use gvisor")
        if not spec.agent.is_file():
            raise InputError(f"the agent cannot be used: {spec.agent}")
        await self._try()
        try:
            return FakeCell(spec, *await own(in_spawner(lambda: _Body.start(spec, self._directory)), _abandon))
        except OSError as error:
            raise BoundaryUnusable(
                f"the agent cannot be started: {error.strerror}", remedy="run: dayfly doctor"
            ) from error

    async def _try(self) -> None:
        if not self._tried:
            lack = await own(in_spawner(_lack), lambda _: None)  # a cancelled one leaves no process either
            if lack is not None:
                raise lack
            self._tried = True


def _no_snapshots() -> BoundaryUnusable:
    return BoundaryUnusable("the fake boundary takes no snapshots", remedy="use the boundary gvisor")


def _lack() -> BoundaryUnusable | None:
    """Why no agent could be started here, tried and not guessed."""
    tools = ["setpriv"] if os.geteuid() else ["setpriv", "unshare", "mount"]
    missing = [name for name in tools if shutil.which(name, path=SYSTEM_PATH) is None]
    if missing:
        return BoundaryUnusable(f"{', '.join(missing)} missing", remedy="apt-get install util-linux mount")
    if os.geteuid() == 0 and not _can_mount():
        return BoundaryUnusable(
            "root's agent gets a mount namespace of its own, and none may be made here",
            remedy="run it as an ordinary user; in a container, allow CAP_SYS_ADMIN and mount",
        )
    return None


def _can_mount() -> bool:
    unshare = shutil.which("unshare", path=SYSTEM_PATH) or "unshare"
    mount = ["mount", "--no-mtab", "--bind", "--", "/", "/"]
    try:
        done = subprocess.run(
            [unshare, "--mount", "--", *mount],
            env={"PATH": SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _command(spec: SandboxSpec, scratch: str) -> list[str]:
    setpriv, unshare = (shutil.which(name, path=SYSTEM_PATH) or name for name in ("setpriv", "unshare"))
    guard = [] if os.geteuid() else [unshare, "--mount", "--", "/bin/sh", str(_GUARD), scratch]
    return [setpriv, "--pdeathsig", "KILL", "--", *guard, sys.executable, "-I", "-S", str(spec.agent)]


class FakeCell:
    """Made by ``FakeBoundary.open``, on the loop that will use it."""

    def __init__(self, spec: SandboxSpec, body: _Body, stream: PipeStream) -> None:
        self._spec = spec
        self._body = body
        self._stream = stream
        self._life = CellLife(body, stream)

    def __repr__(self) -> str:
        return f"<FakeCell {self._spec.id[:12]} {self._life.state}>"

    @property
    def id(self) -> str:
        return self._spec.id

    @property
    def stream(self) -> PipeStream:
        return self._stream

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        values = ((name, float(getattr(self._spec.limits, name))) for name in _LIMITS)
        return tuple(LimitReport(name, value, Enforcement.UNENFORCED, "the boundary is fake") for name, value in values)

    def explain(self) -> Mapping[str, Any]:
        return {"boundary": "fake", "command": _command(self._spec, "SCRATCH"), "limits": []}

    async def wait(self) -> CellEnd:
        return await self._life.wait()

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        return await self._life.kill(reason, detail)

    async def close(self, grace: float) -> CellEnd:
        return await self._life.close(grace)

    def freeze(self) -> None:
        """Not offered: ``guarantees.freeze`` is false."""

    def thaw(self) -> None:
        """See ``freeze``."""

    def step_behind(self, behind: bool) -> bool:
        """Not offered."""
        return False

    async def snapshot(self, directory: Path) -> Snapshot:
        raise _no_snapshots()

    def usage(self) -> Usage:
        return self._body.usage()


class _Body:
    """The process, what it started, and its scratch directory."""

    def __init__(self, child: Child, scratch: _Scratch, stderr: Stderr) -> None:
        self._child = child
        self._scratch = scratch
        self._stderr = stderr
        self._struck: dict[int, int | None] = {}
        self._reaped = False

    @classmethod
    def start(cls, spec: SandboxSpec, directory: Path) -> tuple[_Body, PipeStream]:
        """In the spawner thread. Raises ``OSError`` and leaves nothing."""
        scratch = _Scratch.create(directory)
        stderr = Stderr()
        stream, ends = open_stream()
        try:
            return cls(Child.start(_program(spec, scratch.path, stderr, ends)), scratch, stderr), stream
        except BaseException:
            stream.close()
            stderr.close()
            scratch.remove()
            raise
        finally:
            ends.close()

    @property
    def process(self) -> Child:
        return self._child

    def strike(self) -> None:
        if self._reaped:
            return  # its pid may be another's by now
        self._struck |= {pid: start_ticks(pid) for pid in self._descendants()}
        self._child.kill()
        for pid, started in self._struck.items():
            with suppress(ProcessLookupError):
                if start_ticks(pid) == started:
                    os.kill(pid, signal.SIGKILL)

    def natural_end(self) -> CellEnd:
        self.strike()
        code = self._reap()
        if code == -signal.SIGKILL:  # nothing but the host may do that to an agent
            return CellEnd(EndReason.BOUNDARY_LOST, "the agent was killed from outside")
        return CellEnd(EndReason.CRASHED, f"the agent ended with {code}: {last_words(self._stderr.text())}")

    def clear(self) -> None:
        self.strike()
        if self._child.wait(_GONE_SECONDS):
            self._reap()
        wait_gone([pid for pid, started in self._struck.items() if start_ticks(pid) == started], _GONE_SECONDS)
        self._stderr.close()
        self._scratch.remove()

    def _reap(self) -> int:
        self._reaped = True
        return self._child.reap()

    def usage(self) -> Usage:
        pids = [] if self._reaped else [self._child.pid, *self._descendants()]
        used = [_cpu_and_memory(pid) for pid in pids]
        return Usage(
            cpu_seconds=sum(cpu for cpu, _ in used), memory=sum(memory for _, memory in used), processes=len(pids)
        )

    def _descendants(self) -> list[int]:
        found = children(self._child.pid)
        for pid in found:
            found.extend(children(pid))
        return found


def _abandon(started: tuple[_Body, PipeStream]) -> None:
    body, stream = started
    stream.close()
    body.clear()


class _Scratch:
    """A directory that the agent starts in. Its owner holds a lock on it; without one it is abandoned."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, directory: Path) -> _Scratch:
        with _locked(directory):
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
            return cls(path, forks.keep_from_children(_lock(path, fcntl.LOCK_EX)))

    @classmethod
    def abandoned(cls, path: Path) -> _Scratch | None:
        with _locked(path.parent), suppress(BlockingIOError, FileNotFoundError, PermissionError):
            return cls(path, forks.keep_from_children(_lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)))
        return None

    def remove(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            forks.close(lock)


def _lock(directory: Path, how: int) -> int:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """While directories appear or are judged. Held for microseconds."""
    descriptor = _lock(directory, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _cpu_and_memory(pid: int) -> tuple[float, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # ended
        return 0.0, 0
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def _program(spec: SandboxSpec, scratch: Path, stderr: Stderr, ends: ChildEnds) -> Program:
    return Program(
        argv=_command(spec, str(scratch)),
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=stderr.descriptor,
        environment={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(scratch), "TMPDIR": str(scratch)},
        directory=scratch,
    )
