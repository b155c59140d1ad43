"""What ``AsyncSandbox`` needs from whatever holds the sandbox: the embedded manager, or a server at a URL.

All of it is asyncio, on one loop. Text from inside is hostile; it is decoded once, here below, with replacement.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from dayfly.network import Network
from dayfly.policy import Policy
from dayfly.saved import SavedOutputs
from dayfly.spec import (
    EndReason,
    Execution,
    FileInfo,
    LimitReport,
    ProcessInfo,
    ProcessResult,
    Result,
    Usage,
)

__all__ = [
    "Backend",
    "ContextInfo",
    "Elsewhere",
    "ExecutionSink",
    "Opener",
    "ProcessHandle",
    "ProcessSink",
    "WriteMode",
]

WriteMode = str
"""``"replace"`` (atomic), ``"append"`` or ``"create"`` (must not exist)."""


class ExecutionSink(Protocol):
    """Gets the output of a run while it is produced. Each call is awaited before more is taken from the sandbox, so a
    slow sink slows the code inside down instead of filling memory here."""

    async def stdout(self, text: str) -> None: ...
    async def stderr(self, text: str) -> None: ...
    async def result(self, result: Result) -> None: ...


class ProcessSink(Protocol):
    async def stdout(self, data: bytes) -> None: ...
    async def stderr(self, data: bytes) -> None: ...


class ContextInfo(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def busy(self) -> bool: ...


class ProcessHandle(Protocol):
    """A running command, attached to its output."""

    @property
    def pid(self) -> int: ...

    async def write_stdin(self, data: bytes) -> None: ...
    async def close_stdin(self) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...
    async def send_signal(self, signal: int) -> None: ...
    async def detach(self) -> None:
        """Stop following; a detached process goes on."""
        ...

    async def wait(self) -> ProcessResult: ...


class Backend(Protocol):
    """One live sandbox. Every call raises ``SandboxEnded`` once it is gone, ``InputError`` for unusable arguments."""

    @property
    def id(self) -> str: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def languages(self) -> Sequence[str]: ...
    @property
    def limits(self) -> Sequence[LimitReport]: ...
    @property
    def end_reason(self) -> EndReason | None: ...
    @property
    def unsaved(self) -> str | None:
        """Why its outputs were not saved when it ended; ``None``: they were, or there are none."""
        ...

    def usage(self) -> Usage: ...
    def explain(self) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]: ...

    async def execute(
        self,
        code: str,
        *,
        language: str = "python",
        context: str | None = None,  # None: the language's default context
        timeout: float | None = None,  # None: limits.run_seconds; more than the policy's is allowed up to lifetime
        output: int | None = None,  # None: limits.output; may only be smaller
        sink: ExecutionSink | None = None,
    ) -> Execution:
        """Run code. Cancelling the call interrupts the run inside. A sandbox that ends meanwhile gives an ``Execution``
        with outcome ``sandbox_ended`` and its output so far, not an exception."""
        ...

    async def contexts(self) -> Sequence[ContextInfo]: ...
    async def remove_context(self, name: str) -> None: ...

    async def start_process(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        pty: tuple[int, int] | None = None,  # rows, columns
        stdin: bool = False,
        detached: bool = False,
        timeout: float | None = None,  # None: run_seconds, for a detached one: none
        output: int | None = None,
        sink: ProcessSink | None = None,
    ) -> ProcessHandle: ...
    async def connect_process(
        self, pid: int, *, output: int | None = None, sink: ProcessSink | None = None
    ) -> ProcessHandle: ...
    async def list_processes(self) -> Sequence[ProcessInfo]: ...
    async def signal_process(self, pid: int, signal: int) -> None: ...

    def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]: ...
    async def write_file(self, path: str, chunks: AsyncIterator[bytes], *, how: WriteMode = "replace",
                         mode: int = 0o644, parents: bool = True) -> int: ...  # fmt: skip
    async def stat(self, path: str, *, follow: bool = True) -> FileInfo: ...
    async def list_files(
        self, path: str, *, after: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[FileInfo], bool]: ...
    async def make_directory(self, path: str, *, parents: bool = True, mode: int = 0o755) -> bool: ...
    async def rename(self, path: str, to: str, *, replace: bool = True) -> None: ...
    async def remove(self, path: str, *, recursive: bool = False) -> int: ...
    def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[tuple[str, str]]:
        """(kind, path) from now on: created, modified, removed, renamed, overflow. The first item is ("ready", path)."""
        ...

    def pack_tree(self, path: str) -> AsyncIterator[bytes]: ...
    async def unpack_tree(self, path: str, chunks: AsyncIterator[bytes]) -> int: ...

    def connect_port(self, port: int) -> Any: ...

    async def configure(self, env: Mapping[str, str]) -> None: ...
    async def close(self) -> None:
        """End the sandbox. Idempotent. Afterwards nothing of it is left on the host."""
        ...


@runtime_checkable
class Elsewhere(Protocol):
    """What a backend has besides if its sandbox lives in another process: it may go on without us, and what needs no
    waiting (``usage``, ``end_reason``) may be out of date."""

    async def refresh(self) -> None:
        """Make ``usage``, ``end_reason`` and ``policy`` true as of now."""
        ...

    async def leave(self) -> None:
        """Use it no more, and let it go on."""
        ...


class Opener(Protocol):
    """Makes sandboxes: ``dayfly.manager.Manager`` embedded, ``dayfly.client.remote.server.Server`` at a URL."""

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> Backend: ...
    async def pause(self, sandbox: str, *, seconds: float) -> object:
        """Stop it with its memory: its backend has ended with the reason ``PAUSED``."""
        ...

    async def set_network(self, sandbox: str, rules: Network) -> None:
        """What it may reach from now on: its backend's ``policy`` says so."""
        ...

    async def save_outputs(self, sandbox: str, *, last: bool = False) -> SavedOutputs:
        """What its policy's ``outputs`` name, now; ``last``: and not again at its end."""
        ...

    async def resume(self, sandbox: str) -> Backend: ...
    async def discard(self, sandbox: str) -> None:
        """End a paused one. Idempotent."""
        ...

    async def fork(self, sandbox: str, count: int) -> Sequence[Backend]: ...
    async def close(self) -> None: ...
