"""Every error that dayfly raises on purpose, under one root.

Each class says whose fault it is, whether trying again can help, and which HTTP status a server should answer with.
Foreign errors (``OSError``, ``subprocess`` errors, protocol errors) are translated once, at the edge where they appear.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

__all__ = [
    "BoundaryUnusable",
    "DayflyError",
    "Fault",
    "FileProblem",
    "HostError",
    "ImageNotFound",
    "InputError",
    "LimitUnenforceable",
    "OutOfSpace",
    "PolicyError",
    "RuntimeMissing",
    "RuntimeTooOld",
    "SandboxEnded",
    "SandboxFileError",
    "UnknownLanguage",
    "UnsafeTree",
]


class Fault(StrEnum):
    """Who has to act for the error to go away."""

    CALLER = "caller"  # the arguments are wrong
    HOST = "host"  # this machine lacks something; ``remedy`` says what
    SANDBOX = "sandbox"  # the code inside, or the sandbox's own end


class DayflyError(Exception):
    """Root of all dayfly errors.

    ``str(error)`` is one clear sentence. ``remedy`` is what the reader can do about it, or ``None``.
    """

    fault: ClassVar[Fault] = Fault.HOST
    retryable: ClassVar[bool] = False
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class InputError(DayflyError):
    """An argument is unusable: wrong type, out of range, malformed."""

    fault = Fault.CALLER
    http_status = 400


class PolicyError(InputError):
    """A policy does not parse, contradicts itself or asks for what may not be given."""


class UnknownLanguage(InputError):
    """The image has no kernel for the language that was asked for."""


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


class SandboxEnded(DayflyError):
    """The sandbox is gone. ``reason`` is the value of an ``EndReason``; ``detail`` says what the host saw."""

    fault = Fault.SANDBOX
    http_status = 410

    def __init__(self, reason: str, detail: str = "", *, remedy: str | None = None) -> None:
        super().__init__(f"the sandbox has ended: {reason}" + (f" ({detail})" if detail else ""), remedy=remedy)
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

    def __init__(self, problem: FileProblem, path: str, detail: str = "") -> None:
        super().__init__(f"{problem.value.replace('_', ' ')}: {path!r}" + (f" ({detail})" if detail else ""))
        self.problem = problem
        self.path = path
        self.detail = detail


class UnsafeTree(DayflyError):
    """A directory that comes out of a sandbox holds what may not be written to this machine; nothing of it was kept."""

    fault = Fault.SANDBOX
    http_status = 422
