"""Commands that somebody follows now, so that others can talk to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from dayfly.errors import NoSuchProcess
from dayfly.spec import ProcessResult

__all__ = ["Attached", "Handle"]


class Handle(Protocol):
    """The part of a running command that is used here."""

    pid: int

    async def write_stdin(self, data: bytes) -> None: ...
    async def close_stdin(self) -> None: ...
    async def resize(self, rows: int, columns: int) -> None: ...
    async def wait(self) -> ProcessResult: ...
    async def stop(self) -> ProcessResult: ...
    async def detach(self) -> None: ...


class Attached:
    """Commands that somebody follows now. Only who started one has its input."""

    def __init__(self) -> None:
        self._handles: dict[tuple[str, int], list[Handle]] = {}
        self._started: set[int] = set()  # identities of handles in there

    def __len__(self) -> int:
        return len(self._handles)

    @contextmanager
    def attach(self, sandbox: str, handle: Handle, *, started: bool) -> Iterator[None]:
        """While it is followed."""
        name = (sandbox, handle.pid)
        self._handles.setdefault(name, []).append(handle)
        if started:
            self._started.add(id(handle))
        try:
            yield
        finally:
            self._started.discard(id(handle))
            self._handles[name].remove(handle)
            if not self._handles[name]:
                del self._handles[name]

    def find(self, sandbox: str, pid: int, *, started: bool) -> Handle:
        """With ``started`` the one of who started it. Raises ``NoSuchProcess``."""
        for handle in self._handles.get((sandbox, pid), ()):
            if not started or id(handle) in self._started:
                return handle
        what = "whoever started" if started else "anybody follows"
        raise NoSuchProcess(
            f"no process {pid} runs here that {what}{' still follows' if started else ''}",
            remedy="GET .../processes lists those that are there",
        )
