"""Every error that dayfly raises on purpose, under one root.

Each class says whose fault it is, whether trying again can help, and which HTTP status a server should answer with.
Foreign errors (``OSError``, ``subprocess`` errors, protocol errors) are translated once, at the edge where they appear.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar

__all__ = [
    "AdmissionRefused",
    "BoundaryUnusable",
    "BudgetSpent",
    "BusyError",
    "CannotStart",
    "DayflyError",
    "Fault",
    "FileProblem",
    "HostError",
    "ImageNotFound",
    "InputError",
    "JournalUnwritable",
    "LimitUnenforceable",
    "LocalFileError",
    "NoSuchProcess",
    "NoSuchSandbox",
    "NotProven",
    "OutOfSpace",
    "PolicyError",
    "PortClosed",
    "PortRefused",
    "RuntimeMissing",
    "RuntimeTooOld",
    "SandboxEnded",
    "SandboxFileError",
    "SnapshotMismatch",
    "StoreFailed",
    "UnknownLanguage",
    "UnsafeTree",
]


PROOF_SECONDS = 15.0
"""Until somebody who is told that a proof is under way may ask again: about half of what one takes."""

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Fault(StrEnum):
    """Who has to act for the error to go away."""

    CALLER = "caller"  # the arguments are wrong
    HOST = "host"  # this machine lacks something; ``remedy`` says what
    SANDBOX = "sandbox"  # the code inside, or the sandbox's own end


class DayflyError(Exception):
    """Root of all dayfly errors.

    ``str(error)`` is one clear sentence. ``remedy`` is what the reader can do about it, or ``None``. ``code`` is the
    class's name in snake case, for where only words arrive.
    """

    fault: ClassVar[Fault] = Fault.HOST
    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500
    code: ClassVar[str] = "dayfly_error"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = _WORD.sub("_", cls.__name__).lower()

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Goes to another process whole, as pools of processes need it, whatever the class's own parameters are."""
        return _restored, (type(self), self.args, dict(self.__dict__))


def _restored(kind: type[DayflyError], args: tuple[Any, ...], state: dict[str, Any]) -> DayflyError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class InputError(DayflyError):
    """An argument is unusable: wrong type, out of range, malformed."""

    fault = Fault.CALLER
    http_status = 400


class PolicyError(InputError):
    """A policy does not parse, contradicts itself or asks for what may not be given."""


class UnknownLanguage(InputError):
    """The image has no kernel for the language that was asked for; ``remedy`` says which it has."""


class BusyError(InputError):
    """Too many calls are under way on this sandbox; try again when one has ended."""

    retryable = True
    http_status = 429


class CannotStart(InputError):
    """The program does not exist inside, may not be run, or a limit forbids another process."""


class NoSuchProcess(InputError):
    """No process of that number was started through ``commands``, or it is forgotten."""

    http_status = 404


class NoSuchSandbox(InputError):
    """No sandbox of that id is this tenant's: there never was one, it is forgotten, or it is somebody else's."""

    http_status = 404

    @classmethod
    def of(cls, sandbox: str) -> NoSuchSandbox:
        """The same of each of these, so that nobody learns which it is."""
        return cls(
            f"no sandbox {sandbox!a:.80}", remedy="open a new one, or ask with the key of the tenant that has it"
        )


class AdmissionRefused(DayflyError):
    """There is no room for another sandbox now, for this tenant or on this machine. Try again after ``retry_after`` seconds."""

    retryable = True
    http_status = 429

    def __init__(self, message: str, *, retry_after: float, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after = retry_after


class BudgetSpent(AdmissionRefused):
    """The tenant's CPU seconds of this day are used up; ``retry_after`` is until the next day begins (UTC)."""


class PortRefused(InputError):
    """Nobody listens on that port inside."""

    retryable = True


class PortClosed(DayflyError):
    """The server inside has closed the connection: what was to be written cannot arrive."""

    fault = Fault.SANDBOX
    http_status = 502


class LocalFileError(InputError, OSError):
    """A file of the caller's machine cannot be read or written. Also an ``OSError``: ``errno``, ``strerror``, ``filename``."""

    def __init__(self, path: str, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        super().__init__(f"{path!r} on this machine: {reason}")
        self.errno, self.strerror, self.filename = error.errno, reason, path


class ImageNotFound(InputError):
    """No image of that name or digest is built on this machine, and no recipe of that name exists."""

    http_status = 404


class HostError(DayflyError):
    """This machine cannot do what was asked, as it stands now. ``remedy`` says how to change that."""

    fault = Fault.HOST
    http_status = 503


class BoundaryUnusable(HostError):
    """The boundary (gVisor, ...) cannot be used here, or failed to open a cell."""


class RuntimeMissing(BoundaryUnusable):
    """No ``runsc`` was found."""


class RuntimeTooOld(BoundaryUnusable):
    """A ``runsc`` was found, but it is below the floor."""


class LimitUnenforceable(HostError):
    """A limit of the policy cannot be enforced on this machine and the policy does not accept that by name."""


class OutOfSpace(HostError):
    """A disk or quota of the host is full."""

    retryable = True
    http_status = 507


class JournalUnwritable(HostError):
    """The server's journal cannot be written now, so nothing new is begun. It goes on by itself when that is over."""

    retryable = True


class NotProven(HostError):
    """The server hands out only sandboxes that are proven to be closed, and these are not, or not yet: then it is ``retryable``, after
    ``retry_after`` seconds."""

    http_status = 503

    def __init__(self, message: str, *, waiting: bool = False, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retryable = waiting  # type: ignore[misc]  # of this one error
        self.retry_after = PROOF_SECONDS if waiting else None


class StoreFailed(HostError):
    """The object store of a policy's inputs or outputs, or the way to it, did not do what they need. What was done before that stays."""

    retryable = True
    http_status = 502


class SnapshotMismatch(HostError):
    """A snapshot was taken under other conditions than it would be restored under now. ``changed`` names them."""

    def __init__(self, changed: tuple[str, ...]) -> None:
        super().__init__(f"the snapshot is of another {', '.join(changed)}", remedy="take it again, or start anew")
        self.changed = changed


_AFTER_AN_END = {
    "idle_timeout": "; limits.idle_seconds is how long one waits for the next call",
    "max_lifetime": "; limits.lifetime_seconds is how long one may live",
    "memory_limit": ", and use less memory or raise limits.memory",
    "process_limit": ", and start fewer processes or raise limits.processes",
    "disk_limit": ", and write less or raise limits.disk",
    "cpu_limit": ", and compute less or raise limits.cpu_seconds",
    "output_limit": ", and print less or raise limits.output",
    "evicted": "; it was paused for longer than paused ones are kept",
    "snapshot_mismatch": "; what it was paused under is not there any more",
}
"""By the value of an ``EndReason``; for all others, a new one is all there is to say."""


class SandboxEnded(DayflyError):
    """The sandbox is gone, or with the reason ``paused`` it is not there now. ``reason`` is the value of an ``EndReason``;
    ``detail`` says what the host saw.

    ``remedy`` says what to do next, for each reason.
    """

    fault = Fault.SANDBOX
    http_status = 410

    def __init__(self, reason: str, detail: str = "", *, remedy: str | None = None) -> None:
        paused = reason == "paused"
        what = "is paused" if paused else f"has ended: {reason}"
        advice = "resume it" if paused else f"open a new Sandbox{_AFTER_AN_END.get(reason, '')}"
        super().__init__(f"the sandbox {what}" + (f" ({detail})" if detail else ""), remedy=remedy or advice)
        if paused:
            self.__dict__["http_status"] = 409  # it is not gone
        self.reason = reason
        self.detail = detail


class FileProblem(StrEnum):
    """Why a file operation inside the sandbox did not happen."""

    NOT_FOUND = "not_found"
    EXISTS = "exists"
    IS_DIRECTORY = "is_directory"
    NOT_DIRECTORY = "not_directory"
    NOT_EMPTY = "not_empty"
    NOT_REGULAR = "not_regular"  # a FIFO, device, socket or /proc file: never opened
    UNSAFE_PATH = "unsafe_path"  # "..", a symbolic link out of what the path names, NUL, too long
    DENIED = "denied"
    TOO_LARGE = "too_large"
    NO_SPACE = "no_space"
    OTHER = "other"


class SandboxFileError(DayflyError):
    """A file operation inside the sandbox failed. ``problem`` says why, ``path`` which path."""

    fault = Fault.CALLER
    http_status = 400

    def __init__(self, problem: FileProblem, path: str, detail: str = "", *, remedy: str | None = None) -> None:
        problem_text = problem.value.replace("_", " ")
        more = f" ({detail})" if detail and detail != problem_text else ""
        super().__init__(f"{problem_text}: {path!r}{more}", remedy=remedy)
        self.problem = problem
        self.path = path
        self.detail = detail


class UnsafeTree(DayflyError):
    """A directory that comes out of a sandbox holds what may not be written to this machine; nothing of it was kept."""

    fault = Fault.SANDBOX
    http_status = 422
