"""The boundary contract. A boundary carries bytes: it knows no protocol and no kernel, and it is the only wall.

``dayfly.testing.boundary_contract`` runs every clause of this file against an implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dayfly.boundaries.snapshot import Snapshot
from dayfly.spec import EndReason, Enforcement, LimitReport, SandboxSpec, Usage

__all__ = ["Boundary", "Cell", "CellEnd", "CellStream", "Guarantees", "ProbeReport"]


@dataclass(frozen=True)
class ProbeReport:
    """Whether a boundary can be used here. ``reasons`` say why (not), ``remedies`` what to do; both are for people.

    ``facts`` are detected abilities and versions (``{"runsc": "0.0~20240729.0", "cgroup": "v1", ...}``).
    """

    usable: bool
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    facts: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Guarantees:
    """What a boundary promises on this machine. Ask it; never guess by a name.

    ``limits`` maps a field of ``Limits`` to how it would be kept here.
    """

    own_kernel: bool
    network_cut: bool
    read_only_mounts: bool
    separate_user: bool  # code inside runs as another host uid than dayfly, or in an own user namespace
    dies_with_host_process: bool
    limits: Mapping[str, Enforcement]
    freeze: bool = False  # ``Cell.freeze`` really stops the cell
    snapshot: bool = False  # cells can be snapshot and restored
    trusted_for: str = "untrusted code"  # or "nothing": a fake, a plain process


@dataclass(frozen=True)
class CellEnd:
    """Why the cell is gone, as the host observed it. ``detail`` is one line for a person."""

    reason: EndReason
    detail: str = ""


class CellStream(Protocol):
    """ONE bidirectional byte stream to the agent, for a running asyncio loop.

    ``read`` returns at least one byte and at most ``limit``; ``b""`` once the cell closed its side. ``write`` returns
    when all of the buffers (written as if joined) were handed to the operating system; it raises ``BrokenPipeError``
    or ``ConnectionResetError`` when nobody reads any more. One reader and one writer task at a time. ``write_now`` writes what
    can be written without waiting, while nobody is in ``write``, and returns how many bytes that was; it raises the same.
    """

    async def read(self, limit: int) -> bytes: ...

    async def write(self, *buffers: bytes | bytearray | memoryview) -> None: ...

    def write_now(self, *buffers: bytes | bytearray | memoryview) -> int: ...

    def close(self) -> None:
        """Close the host's side at once; the agent sees end of file. Idempotent."""
        ...


class Cell(Protocol):
    """One running instance of a boundary."""

    @property
    def id(self) -> str: ...

    @property
    def stream(self) -> CellStream: ...

    @property
    def limits(self) -> tuple[LimitReport, ...]:
        """Every limit that the boundary keeps, as read back after the start."""
        ...

    async def wait(self) -> CellEnd:
        """Return when the cell is gone, however often called. Never raises but for cancellation."""
        ...

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        """End the cell. Idempotent, safe to cancel and to call concurrently; the first reason wins.

        When it returns, no process, mount, cgroup or directory of the cell is left.
        """
        ...

    async def close(self, grace: float) -> CellEnd:
        """Close the stream, give the agent ``grace`` seconds to leave by itself, then ``kill``. Same postcondition."""
        ...

    def freeze(self) -> None:
        """Stop everything inside where it is: no CPU is used until ``thaw``. Idempotent; nothing where it is not offered.

        A frozen cell can be killed; to let it leave by itself, thaw it first.
        """
        ...

    def thaw(self) -> None:
        """Continue after ``freeze``. Idempotent."""
        ...

    def step_behind(self, behind: bool) -> bool:
        """Run only where no other cell wants to, or like any other again. False, and nothing, where that is not offered."""
        ...

    async def snapshot(self, directory: Path) -> Snapshot:
        """Write the cell as it is now into the new ``directory``; it goes on running (thawed) whether that works or not.

        Bytes that are under way on the stream are in neither: let the agent fall silent before. Raises ``HostError``
        (``BoundaryUnusable`` where ``guarantees.snapshot`` is false), ``OutOfSpace`` or ``InputError``, and then leaves
        no directory, also when cancelled. A cell that cannot be asked in time is ended.
        """
        ...

    def usage(self) -> Usage:
        """CPU seconds, memory and disk as the host sees them now."""
        ...

    def explain(self) -> Mapping[str, Any]:
        """What was generated for this cell (for gVisor: command line, OCI spec), for ``--explain``. No secrets."""
        ...


class Boundary(Protocol):
    """One technology that separates."""

    @property
    def name(self) -> str: ...

    def probe(self) -> ProbeReport:
        """Usable or not, why, and how to mend it. Time-limited (5 s in all), never raises, leaves nothing behind."""
        ...

    @property
    def guarantees(self) -> Guarantees: ...

    async def open(self, spec: SandboxSpec) -> Cell:
        """Start a cell that runs ``spec.agent`` as pid 1 with ``spec.image``'s Python and the stream as its stdio.

        Raises ``BoundaryUnusable``, ``LimitUnenforceable``, ``OutOfSpace`` or ``InputError`` and then leaves nothing
        behind, also when cancelled.
        """
        ...

    async def restore(self, snapshot: Snapshot, spec: SandboxSpec) -> Cell:
        """Start a cell for ``spec`` that continues where ``snapshot`` was taken, on a stream of its own.

        All that holds of an opened cell holds of it. Its id, its host name's file and its machine id are its own; what
        user space had drawn at random is the snapshot's. Raises ``SnapshotMismatch`` and whatever ``open`` raises. An
        image that turns out to be damaged may end the cell soon after instead.
        """
        ...

    def identity(self, spec: SandboxSpec) -> Mapping[str, str]:
        """What a snapshot must have been taken under for ``restore`` to take it for ``spec``, as condition -> value.

        Raises what ``open`` raises for a bad spec; empty where ``guarantees.snapshot`` is false.
        """
        ...

    def explain(self, spec: SandboxSpec) -> Mapping[str, Any]:
        """What ``open`` would generate, without starting anything."""
        ...

    def sweep(self) -> int:
        """Remove what dead dayfly processes left behind; never touches what a live one holds. Returns how many cells."""
        ...
