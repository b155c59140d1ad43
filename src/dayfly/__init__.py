"""dayfly: disposable sandboxes for code that AI agents write.

Everything public is listed here and loaded when first used, so that ``import dayfly`` costs nearly nothing and works on any
system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dayfly.client.blocking import Commands, Contexts, Files, Port, Process, Sandbox, Watch
    from dayfly.client.commands import AsyncCommands, AsyncProcess, Output
    from dayfly.client.contexts import AsyncContexts
    from dayfly.client.files import AsyncFiles
    from dayfly.client.ports import AsyncPort
    from dayfly.client.remote.failures import BadAnswer, ServerUnreachable
    from dayfly.client.sandbox import AsyncSandbox
    from dayfly.client.watch import AsyncWatch, Change
    from dayfly.errors import (
        AdmissionRefused,
        BoundaryUnusable,
        BudgetSpent,
        BusyError,
        CannotStart,
        DayflyError,
        Fault,
        FileProblem,
        HostError,
        ImageNotFound,
        InputError,
        JournalUnwritable,
        LimitUnenforceable,
        LocalFileError,
        NoSuchProcess,
        NoSuchSandbox,
        NotProven,
        OutOfSpace,
        PolicyError,
        PortClosed,
        PortRefused,
        RuntimeMissing,
        RuntimeTooOld,
        SandboxEnded,
        SandboxFileError,
        SnapshotMismatch,
        StoreFailed,
        UnknownLanguage,
        UnsafeTree,
    )
    from dayfly.limits import Limits
    from dayfly.network import Rule
    from dayfly.policy import DataMount, Policy
    from dayfly.saved import LeftOut, SavedOutputs
    from dayfly.spec import (
        Denial,
        EndReason,
        Enforcement,
        Execution,
        ExecutionError,
        FileInfo,
        FileKind,
        LimitReport,
        Outcome,
        ProcessInfo,
        ProcessResult,
        Result,
        Usage,
    )

__version__ = "0.1.0"

_HOMES = {
    "client.blocking": ("Commands", "Contexts", "Files", "Port", "Process", "Sandbox", "Watch"),
    "client.commands": ("AsyncCommands", "AsyncProcess", "Output"),
    "client.contexts": ("AsyncContexts",),
    "client.files": ("AsyncFiles",),
    "client.ports": ("AsyncPort",),
    "client.remote.failures": ("BadAnswer", "ServerUnreachable"),
    "client.sandbox": ("AsyncSandbox",),
    "client.watch": ("AsyncWatch", "Change"),
    "errors": (
        "AdmissionRefused", "BoundaryUnusable", "BudgetSpent", "BusyError", "CannotStart", "DayflyError", "Fault",
        "FileProblem", "HostError", "ImageNotFound", "InputError", "JournalUnwritable",
        "LimitUnenforceable", "LocalFileError", "NoSuchProcess", "NoSuchSandbox", "NotProven", "OutOfSpace", "PolicyError", "PortClosed", "PortRefused", "RuntimeMissing",
        "RuntimeTooOld", "SandboxEnded", "SandboxFileError", "SnapshotMismatch", "StoreFailed",
        "UnknownLanguage", "UnsafeTree",
    ),
    "limits": ("Limits",),
    "network": ("Rule",),
    "policy": ("DataMount", "Policy"),
    "saved": ("LeftOut", "SavedOutputs"),
    "spec": (
        "Denial", "EndReason", "Enforcement", "Execution", "ExecutionError", "FileInfo", "FileKind", "LimitReport",
        "Outcome", "ProcessInfo", "ProcessResult", "Result", "Usage",
    ),
}  # fmt: skip
"""Where each public name lives. A test holds this against the imports above."""

_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdmissionRefused",
    "AsyncCommands",
    "AsyncContexts",
    "AsyncFiles",
    "AsyncPort",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncWatch",
    "BadAnswer",
    "BoundaryUnusable",
    "BudgetSpent",
    "BusyError",
    "CannotStart",
    "Change",
    "Commands",
    "Contexts",
    "DataMount",
    "DayflyError",
    "Denial",
    "EndReason",
    "Enforcement",
    "Execution",
    "ExecutionError",
    "Fault",
    "FileInfo",
    "FileKind",
    "FileProblem",
    "Files",
    "HostError",
    "ImageNotFound",
    "InputError",
    "JournalUnwritable",
    "LeftOut",
    "LimitReport",
    "LimitUnenforceable",
    "Limits",
    "LocalFileError",
    "NoSuchProcess",
    "NoSuchSandbox",
    "NotProven",
    "OutOfSpace",
    "Outcome",
    "Output",
    "Policy",
    "PolicyError",
    "Port",
    "PortClosed",
    "PortRefused",
    "Process",
    "ProcessInfo",
    "ProcessResult",
    "Result",
    "Rule",
    "RuntimeMissing",
    "RuntimeTooOld",
    "Sandbox",
    "SandboxEnded",
    "SandboxFileError",
    "SavedOutputs",
    "ServerUnreachable",
    "SnapshotMismatch",
    "StoreFailed",
    "UnknownLanguage",
    "UnsafeTree",
    "Usage",
    "Watch",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
