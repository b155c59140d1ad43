"""Files inside: thin calls; the confinement is the agent's and the wall is the boundary's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dayfly.errors import InputError
from dayfly.sandbox.call import Call
from dayfly.sandbox.inside import FAILURES, Inside, checked_rows
from dayfly.spec import FileInfo, FileKind
from dayfly.wire import operations as ops
from dayfly.wire.messages import Data, Event

__all__ = ["FileCalls"]

MAX_PATH = 4096
"""Bytes of a path: Linux's own PATH_MAX."""

PAGE = 1000
"""Entries of one page of a listing."""

_KINDS = {kind.value for kind in FileKind}


class FileCalls:
    """Files, directories, trees and ports. Mixed into ``Life``. Every method raises ``SandboxFileError``."""

    _inside: Inside

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The content in pieces, in order."""
        params: dict[str, object] = {"path": _path(path), "offset": _count(offset), "length": length}
        async with self._calling(ops.FILE_READ, params, path, bulk=True) as call:
            while (message := await call.next()) is not None:
                if isinstance(message, Data):
                    yield message.data

    async def write_file(
        self, path: str, chunks: AsyncIterator[bytes], *, how: str = "replace", mode: int = 0o644, parents: bool = True
    ) -> int:
        """Write what ``chunks`` gives; returns the size in bytes. A ``replace`` that fails or is cancelled changes nothing."""
        if how not in ("replace", "append", "create"):
            raise InputError(f"how must be replace, append or create, not {how!r}")
        params: dict[str, object] = {"path": _path(path), "how": how, "mode": mode & 0o777, "parents": parents}
        async with self._calling(ops.FILE_WRITE, params, path) as call:
            await _send_all(call, chunks)
            return int((await call.answer())["size"])

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """One entry."""
        return _info(await self._answer(ops.FILE_STAT, {"path": _path(path), "follow": follow}, path))

    async def list_files(
        self, path: str, *, after: str | None = None, limit: int = PAGE
    ) -> tuple[Sequence[FileInfo], bool]:
        """Up to ``limit`` entries after the name ``after``, sorted by name, and whether there are more."""
        params: dict[str, object] = {"path": _path(path), "after": after, "limit": min(limit, PAGE)}
        async with self._calling(ops.FILE_LIST, params, path) as call:
            value = await call.answer()
            return [_info(row) for row in checked_rows(value["entries"], ops.STAT, "entry")], value["more"]

    async def make_directory(self, path: str, *, parents: bool = True, mode: int = 0o755) -> bool:
        """Make a directory; returns whether it is new."""
        params: dict[str, object] = {"path": _path(path), "parents": parents, "mode": mode & 0o777}
        return bool((await self._answer(ops.FILE_MKDIR, params, path))["created"])

    async def rename(self, path: str, to: str, *, replace: bool = True) -> None:
        """Rename within one file system."""
        await self._answer(ops.FILE_RENAME, {"path": _path(path), "to": _path(to), "replace": replace}, path)

    async def remove(self, path: str, *, recursive: bool = False) -> int:
        """Remove a file or directory; returns how many entries went. Links are removed, never followed."""
        return int(
            (await self._answer(ops.FILE_REMOVE, {"path": _path(path), "recursive": recursive}, path))["removed"]
        )

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[tuple[str, str]]:
        """("ready", path) once it watches, then (kind, path) for every change."""
        params: dict[str, object] = {"path": _path(path), "recursive": recursive}
        async with self._calling(ops.FILE_WATCH, params, path, long=True) as call:
            while (message := await call.next()) is not None:
                if isinstance(message, Event):
                    fields = message.fields
                    yield ("ready", path) if message.name == "ready" else (str(fields["kind"]), str(fields["path"]))

    async def pack_tree(self, path: str) -> AsyncIterator[bytes]:
        """A directory as a tar stream. Hostile: unpack it only with ``dayfly.client.trees``."""
        async with self._calling(ops.TREE_PACK, {"path": _path(path)}, path, bulk=True) as call:
            while (message := await call.next()) is not None:
                if isinstance(message, Data):
                    yield message.data

    async def unpack_tree(self, path: str, chunks: AsyncIterator[bytes]) -> int:
        """Unpack a tar stream into a directory inside; returns the number of members."""
        async with self._calling(ops.TREE_UNPACK, {"path": _path(path)}, path) as call:
            await _send_all(call, chunks)
            return int((await call.answer())["members"])

    async def configure(self, env: Mapping[str, str]) -> None:
        """Set environment variables for everything that is started from now on."""
        await self._answer(ops.CONFIGURE, {"env": dict(env), "limits": {}, "hostname": None}, "")

    async def _answer(self, operation: ops.Operation, params: dict[str, object], path: str) -> dict[str, Any]:
        async with self._calling(operation, params, path) as call:
            return await call.answer()

    @asynccontextmanager
    async def _calling(
        self, operation: ops.Operation, params: dict[str, object], path: str, *, bulk: bool = False, long: bool = False
    ) -> AsyncIterator[Call]:
        """A call that is given up when the block is left early, and whose failures become public errors."""
        with self._inside.call():
            call = None
            try:
                call = await self._inside.link.open(operation, params, bulk=bulk, long=long)
                yield call
            except FAILURES as caught:
                raise await self._inside.error(caught, path) from None
            finally:
                if call is not None and not call.over:
                    call.abandon()


async def _send_all(call: Call, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        if call.over:
            return  # refused: the answer says why
        await call.send_data(ops.STDIN, chunk)
    call.send_eof(ops.STDIN)


def _path(path: object) -> str:
    if not isinstance(path, str) or not path or "\0" in path or len(path.encode("utf-8", "surrogateescape")) > MAX_PATH:
        raise InputError(f"a path must be text of 1 to {MAX_PATH} bytes without NUL, not {path!r:.100}")
    return path


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"not a number of bytes: {value!r}")
    return value


def _info(row: dict[str, Any]) -> FileInfo:
    kind = row["kind"]
    return FileInfo(
        name=row["name"],
        path=row["path"],
        kind=FileKind(kind) if kind in _KINDS else FileKind.OTHER,
        size=max(0, row["size"]),
        mode=row["mode"] & 0o7777,
        modified=float(row["modified"]),
        target=row["target"],
    )
