"""Nouns that cross layers. Plain frozen values, no behaviour beyond reading themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dayfly.limits import Limits

__all__ = [
    "EndReason",
    "Enforcement",
    "Execution",
    "ExecutionError",
    "FileInfo",
    "FileKind",
    "Image",
    "LimitReport",
    "Mount",
    "Outcome",
    "ProcessInfo",
    "ProcessResult",
    "ReadOnlyLayer",
    "Result",
    "SandboxSpec",
    "Usage",
]


class EndReason(StrEnum):
    """Why a sandbox is gone, as the host saw it."""

    STOPPED = "stopped"
    IDLE_TIMEOUT = "idle_timeout"
    MAX_LIFETIME = "max_lifetime"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    DISK_LIMIT = "disk_limit"
    CPU_LIMIT = "cpu_limit"
    OUTPUT_LIMIT = "output_limit"
    CRASHED = "crashed"  # the agent or the whole cell died by itself, or what it ran
    UNRESPONSIVE = "unresponsive"  # the agent fell silent, or could not be confirmed to have killed a run
    PROTOCOL_VIOLATION = "protocol_violation"
    BOUNDARY_LOST = "boundary_lost"  # the boundary's own processes were killed from outside
    QUARANTINED = "quarantined"
    EVICTED = "evicted"


class Enforcement(StrEnum):
    """How a cap is kept on this machine."""

    ENFORCED = "enforced"  # by a kernel; cannot be exceeded
    WATCHED = "watched"  # the host samples it and ends the sandbox; may be exceeded for some 50 ms
    UNENFORCED = "unenforced"


@dataclass(frozen=True)
class LimitReport:
    """One cap of a live sandbox: what was asked, how it is kept and by what.

    ``name`` is a field of ``Limits``; ``value`` has that field's unit; ``how`` is one phrase for a person, such as
    ``"cgroup v1 memory.limit_in_bytes, read back"``.
    """

    name: str
    value: float
    enforcement: Enforcement
    how: str


@dataclass(frozen=True)
class ReadOnlyLayer:
    """A host directory of an image that appears read-only at ``target`` inside (for example the wheels)."""

    source: Path
    target: str


@dataclass(frozen=True)
class Image:
    """A built image, ready to be opened. Made by ``dayfly.images``; never written to afterwards.

    ``digest`` is ``sha256:`` + hex over recipe, lock and architecture. ``python`` is the interpreter's path inside,
    ``python_version`` e.g. ``"3.11"``. ``languages`` are the kernels that the image can run, such as
    ``("python", "bash", "javascript")``. ``environment`` is what every process inside starts with.
    """

    name: str
    digest: str
    architecture: str
    rootfs: Path
    layers: tuple[ReadOnlyLayer, ...] = ()
    python: str = "/usr/bin/python3"
    python_version: str = "3.11"
    languages: tuple[str, ...] = ("python", "bash")
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mount:
    """A host file or directory that appears read-only inside. Checked by ``Policy``; enforced outside the guest."""

    source: Path
    target: str


@dataclass(frozen=True)
class SandboxSpec:
    """All that a boundary needs to open one cell. ``id`` is 128 random bits in hex.

    ``accept_unenforced`` names limits that may stay unenforced; ``strict`` demands that every limit be enforced.
    ``agent`` is the zipapp to run as pid 1, a host path.
    """

    id: str
    image: Image
    limits: Limits
    agent: Path
    mounts: tuple[Mount, ...] = ()
    hostname: str = "sandbox"
    strict: bool = False
    accept_unenforced: frozenset[str] = frozenset()


class Outcome(StrEnum):
    """How one execution or command ended."""

    OK = "ok"
    ERROR = "error"  # the code raised, or the command's exit code is not 0
    TIMEOUT = "timeout"
    CPU_LIMIT = "cpu_limit"
    OUTPUT_LIMIT = "output_limit"  # reserved for doors that end a run on too much output; here output is truncated
    INTERRUPTED = "interrupted"  # by the caller
    KERNEL_DIED = "kernel_died"  # the interpreter ended under the code (exit, signal, killed for memory)
    SANDBOX_ENDED = "sandbox_ended"


@dataclass(frozen=True)
class ExecutionError:
    """An exception of the code inside: claims of hostile code. ``traceback`` is text without colour codes."""

    name: str
    value: str
    traceback: str


@dataclass(frozen=True)
class Result:
    """One rich result: a MIME bundle. Untrusted data: never render html, svg or javascript outside a sandboxed frame.

    ``data`` maps a MIME type to ``str`` (text types), ``bytes`` (image/png, image/jpeg, application/pdf) or a JSON value
    (application/json). ``is_main`` marks the value of the last expression, as against what ``display()`` showed.
    """

    data: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_main: bool = False

    @property
    def text(self) -> str | None:
        return self.data.get("text/plain")

    @property
    def html(self) -> str | None:
        return self.data.get("text/html")

    @property
    def png(self) -> bytes | None:
        return self.data.get("image/png")

    @property
    def svg(self) -> str | None:
        return self.data.get("image/svg+xml")

    @property
    def json(self) -> Any:
        return self.data.get("application/json")


@dataclass(frozen=True)
class Usage:
    """What a sandbox used so far, as the host measures it. Seconds and bytes; ``None`` where the host cannot tell."""

    cpu_seconds: float | None = None
    memory: int | None = None
    memory_peak: int | None = None
    disk: int | None = None
    processes: int | None = None


def _shortened(text: str, length: int = 60) -> str:
    return repr(text) if len(text) <= length else f"{text[:length]!r}... ({len(text)})"


@dataclass(frozen=True)
class Execution:
    """What one ``run_code`` gave. ``duration`` is wall seconds on the host's clock, ``cpu_seconds`` a claim from inside.

    ``limit`` names the field of ``Limits`` that stopped or truncated the run, if one did (also when code got a plain
    ``MemoryError`` from it). ``dropped`` counts the bytes of output beyond the cap. ``state_survived`` says whether
    variables of the context are still there.
    """

    outcome: Outcome
    stdout: str = ""
    stderr: str = ""
    results: tuple[Result, ...] = ()
    error: ExecutionError | None = None
    execution_count: int = 0
    exit_code: int | None = None
    signal: int | None = None
    state_survived: bool = True
    limit: str | None = None
    dropped: int = 0
    duration: float = 0.0
    cpu_seconds: float = 0.0
    end_reason: EndReason | None = None
    limits: tuple[LimitReport, ...] = ()

    def __repr__(self) -> str:
        """One bounded line; all of it is in the fields."""
        parts = [f"{self.outcome.value} in {self.duration:.3f} s"]
        parts += [f"{name}={_shortened(value)}" for name in ("stdout", "stderr") if (value := getattr(self, name))]
        parts += [f"results={len(self.results)}"] if self.results else []
        parts += [f"error={_shortened(f'{self.error.name}: {self.error.value}')}"] if self.error else []
        parts += [
            f"{name}={value}" for name in ("exit_code", "signal", "limit") if (value := getattr(self, name)) is not None
        ]
        return f"<Execution {' '.join(parts)}>"

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def text(self) -> str | None:
        """``text/plain`` of the last expression's value, if there was one."""
        return next((result.text for result in self.results if result.is_main), None)


@dataclass(frozen=True)
class ProcessInfo:
    """One process that was started through ``commands``. ``pid`` is the number inside."""

    pid: int
    argv: tuple[str, ...]
    cwd: str
    running: bool
    pty: bool = False
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class ProcessResult:
    """How a command ended. Exactly one of ``exit_code`` (0-255) and ``signal`` is set unless the sandbox ended."""

    outcome: Outcome
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    signal: int | None = None
    limit: str | None = None
    dropped: int = 0
    duration: float = 0.0
    end_reason: EndReason | None = None

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def text(self) -> str:
        """stdout as UTF-8, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")


class FileKind(StrEnum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True)
class FileInfo:
    """One directory entry. ``name`` and ``path`` carry undecodable bytes as lone surrogates (PEP 383), which JSON
    escapes keep; ``os.fsencode`` gives the bytes back. ``modified`` is seconds since the epoch, ``mode`` permission bits.
    """

    name: str
    path: str
    kind: FileKind
    size: int
    mode: int
    modified: float
    target: str | None = None
