"""Changes of files inside, as they happen, without the traces of dayfly's own way of writing them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import NamedTuple, Self

__all__ = ["AsyncWatch", "Change"]

_SCRATCH = re.compile(r"\.dayfly-[0-9a-f]{16}")
"""A file that is written whole or not at all has such a name, beside its place, until it is renamed to its own."""

_MOST_NAMES = 10_000  # that are remembered: what is told is the sandbox's claim, and may never end


class Change(NamedTuple):
    """``kind`` is created, modified, removed, renamed (``path`` is the new name) or overflow (some were lost).

    A file that ``files.write`` replaces is told as created; as modified if the watch has told of it before.
    """

    kind: str
    path: str


class AsyncWatch:
    """Changes as they happen: an async iterator of ``Change``, and a context manager that closes it."""

    def __init__(self, sandbox: object, source: AsyncIterator[tuple[str, str]]) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._source = source
        self._told = _Told()

    async def ready(self) -> None:
        """Wait until the sandbox watches. Called by ``files.watch``."""
        await anext(self._source, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while True:
            change = self._told.of(*await anext(self._source))
            if change is not None:
                return change

    async def next(self) -> Change | None:
        """The next change, or ``None`` once the watch is closed."""
        return await anext(self, None)

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        close: Callable[[], object] | None = getattr(self._source, "aclose", None)
        if close is not None:
            with suppress(RuntimeError):  # a next() is under way elsewhere; it ends with the sandbox
                await close()  # type: ignore[misc]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Told:
    """From what the kernel inside saw to what the caller did: scratch names are left out, and their renaming is a write.

    A rename does not say what the name was before. While something is being written into a directory, one in that directory
    is taken for the end of the writing; a rename by somebody else in the same moment is then told as a new file, too.
    """

    def __init__(self) -> None:
        self._scratches: dict[str, str] = {}  # path: its directory
        self._known: set[str] = set()

    def of(self, kind: str, path: str) -> Change | None:
        directory, _, name = path.rpartition("/")
        if _SCRATCH.fullmatch(name):
            self._follow(kind, path, directory)
            return None
        if kind == "renamed" and self._ends_a_write(directory):
            kind = "modified" if path in self._known else "created"
        self._remember(kind, path)
        return Change(kind, path)

    def _follow(self, kind: str, path: str, directory: str) -> None:
        if kind == "removed":
            self._scratches.pop(path, None)
        elif len(self._scratches) < _MOST_NAMES:
            self._scratches[path] = directory

    def _ends_a_write(self, directory: str) -> bool:
        scratch = next((path for path, where in self._scratches.items() if where == directory), None)
        return scratch is not None and self._scratches.pop(scratch) == directory

    def _remember(self, kind: str, path: str) -> None:
        if kind == "removed":
            self._known.discard(path)
        elif len(self._known) < _MOST_NAMES:
            self._known.add(path)
