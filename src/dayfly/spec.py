"""Nouns that cross layers. Plain frozen values, no behaviour beyond reading themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from dayfly.denial import Denial
from dayfly.limits import Limits, amount_text

__all__ = [
    "Denial",
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
    SNAPSHOT_MISMATCH = "snapshot_mismatch"  # it was paused, and cannot go on here any more
    PAUSED = "paused"  # not for ever: its memory lies on disk, and it can go on


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
    """An exception of the code inside: claims of hostile code. ``traceback`` is text without colour codes.

    ``str()`` is the traceback, or name and value where there is none, fit to be printed or handed to a model.
    """

    name: str
    value: str
    traceback: str

    def __str__(self) -> str:
        text = self.traceback.strip("\n") or f"{self.name}: {self.value}"
        return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)

    def __repr__(self) -> str:
        return f"ExecutionError({_shortened(f'{self.name}: {self.value}')})"


@dataclass(frozen=True)
class Result:
    """One rich result: a MIME bundle. Untrusted data: never render html, svg or javascript outside a sandboxed frame.

    ``data`` maps a MIME type to ``str`` (text types), ``bytes`` (image/png, image/jpeg, application/pdf) or a JSON value
    (application/json). ``is_main`` marks the value of the last expression, as against what ``display()`` showed.
    """

    data: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_main: bool = False

    def __repr__(self) -> str:
        """Types and sizes only, such as ``Result(text/plain 12 B, image/png 6.1 kB)``."""
        parts = [f"{_one_line(kind, 40)}{_weight(value)}" for kind, value in list(self.data.items())[:_MOST_TYPES]]
        return f"Result({', '.join(parts)}{', ...' if len(self.data) > _MOST_TYPES else ''})"

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


_MOST_TYPES = 8  # in the representation of a result


def _weight(value: object) -> str:
    if not isinstance(value, (str, bytes)):
        return ""
    size = len(value)
    return f" {size} B" if size < 1000 else f" {size / 1000:.1f} kB" if size < 10**6 else f" {size / 10**6:.1f} MB"


def _one_line(text: str, length: int = 200) -> str:
    """Bounded and harmless in a terminal, whatever code inside made of it."""
    shown = "".join(char if char.isprintable() else " " for char in text[: length + 1])
    return shown if len(text) <= length else f"{shown[:length]}..."


def _shortened(text: str, length: int = 60) -> str:
    return repr(text) if len(text) <= length else f"{text[:length]!r}... ({len(text)})"


@dataclass(frozen=True)
class Execution:
    """What one ``run_code`` gave. ``duration`` is wall seconds on the host's clock, ``cpu_seconds`` a claim from inside.

    ``limit`` names the field of ``Limits`` that stopped or truncated the run, if one did (also when code got a plain
    ``MemoryError`` from it). ``dropped`` counts the bytes of output beyond the cap. ``state_survived`` says whether
    variables of the context are still there. ``denied`` are the destinations that were denied while it ran.
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
    denied: tuple[Denial, ...] = ()

    def __repr__(self) -> str:
        """One bounded line; all of it is in the fields."""
        parts = [f"{self.outcome.value} in {self.duration:.3f} s"]
        parts += [f"{name}={_shortened(value)}" for name in ("stdout", "stderr") if (value := getattr(self, name))]
        parts += [f"results={len(self.results)}"] if self.results else []
        parts += [f"error={_shortened(f'{self.error.name}: {self.error.value}')}"] if self.error else []
        parts += _facts(self)
        return f"<Execution {' '.join(parts)}>"

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def text(self) -> str | None:
        """``text/plain`` of the last expression's value, if there was one."""
        return next((result.text for result in self.results if result.is_main), None)

    @property
    def explanation(self) -> str:
        """How it ended, in one sentence for a model or a person, such as ``"stopped after 30 s, when its time was over
        (timeout= or limits.run_seconds); variables are kept"``. Empty when all is well.
        """
        if self.ok:
            return _ending(self.exit_code, self.state_survived)
        amounts = {one.name: f" is {amount_text(one.name, one.value)}" for one in self.limits}
        limit = f"limits.{self.limit}{amounts.get(self.limit, '')}" if self.limit else ""
        cause = _CAUSES.get(self.outcome, _exit)(self, limit)
        if not self.state_survived:
            return f"{cause}; variables are lost"
        return cause if self.outcome is Outcome.ERROR else f"{cause}; variables are kept"


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
    """How a command ended. Exactly one of ``exit_code`` (0-255) and ``signal`` is set unless the sandbox ended. ``denied`` are
    the destinations that were denied while it ran."""

    outcome: Outcome
    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None
    signal: int | None = None
    limit: str | None = None
    dropped: int = 0
    duration: float = 0.0
    end_reason: EndReason | None = None
    denied: tuple[Denial, ...] = ()

    def __repr__(self) -> str:
        """One bounded line; all of it is in the fields."""
        parts = [f"{self.outcome.value} in {self.duration:.3f} s"]
        parts += [
            f"{name}={value[:60]!r}" + (f"... ({len(value)})" if len(value) > 60 else "")
            for name in ("stdout", "stderr")
            if (value := getattr(self, name))
        ]
        parts += _facts(self)
        return f"<ProcessResult {' '.join(parts)}>"

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def explanation(self) -> str:
        """How it ended, in one sentence for a model or a person, such as ``"ended with exit code 3"``. Empty when ``ok``."""
        return "" if self.ok else _CAUSES.get(self.outcome, _exit)(self, f"limits.{self.limit}" if self.limit else "")

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


# --- how an Execution or a ProcessResult ended, in words ---

_SIGNALS = {
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}

_Ended = Execution | ProcessResult


def _facts(one: _Ended) -> list[str]:
    names = ("exit_code", "signal", "limit")
    found = [f"{name}={value}" for name in names if (value := getattr(one, name)) is not None]
    return [*found, f"denied={len(one.denied)}"] if one.denied else found


def _exit(one: _Ended, limit: str) -> str:
    """It ended by itself: an exception, an exit code, a signal."""
    error = one.error if isinstance(one, Execution) else None
    if error is not None and one.outcome is Outcome.ERROR:
        how = f"raised {_one_line(f'{error.name}: {error.value}' if error.value else error.name)}"
    elif one.signal is not None:
        how = f"was ended by signal {one.signal}" + (f" ({_SIGNALS[one.signal]})" if one.signal in _SIGNALS else "")
    elif one.exit_code is not None:
        how = f"ended with exit code {one.exit_code}"
    else:
        how = _one_line(error.value) if error is not None and error.value else "failed"
    return f"{how} ({limit})" if limit else how


def _death(one: _Ended, limit: str) -> str:
    """The interpreter ended under the code."""
    if limit.startswith("limits.memory"):
        return f"the interpreter was killed for memory: {limit}"
    how = _exit(one, limit)
    return how if how.startswith("the kernel") else f"the interpreter {how}"


def _end(one: _Ended, limit: str) -> str:
    reason = f": {one.end_reason.value}" if one.end_reason else ""
    return f"the sandbox has ended{reason}" + (f" ({limit})" if limit else "")


def _timeout(one: _Ended, _: str) -> str:
    end = f"; {_end(one, '')}" if one.end_reason else ""
    return f"stopped after {one.duration:.3g} s, when its time was over (timeout= or limits.run_seconds){end}"


_CAUSES: Mapping[Outcome, Callable[[_Ended, str], str]] = {
    Outcome.TIMEOUT: _timeout,
    Outcome.CPU_LIMIT: lambda _, limit: f"stopped for its CPU time: {limit or 'limits.run_cpu_seconds'}",
    Outcome.OUTPUT_LIMIT: lambda _, limit: f"stopped for its output: {limit or 'limits.output'}",
    Outcome.INTERRUPTED: lambda _, __: "interrupted by the caller",
    Outcome.KERNEL_DIED: _death,
    Outcome.SANDBOX_ENDED: _end,
}


def _ending(exit_code: int | None, survived: bool) -> str:
    """What is to be said of a run without an error: Bash's exit code, and its own end."""
    parts = [f"exit code {exit_code}"] if exit_code else []
    return "; ".join([*parts, *([] if survived else ["the code ended its interpreter: variables are lost"])])
