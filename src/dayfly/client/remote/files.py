"""Files inside, over HTTP. Contents and trees are streamed both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from dayfly.client.remote.events import NDJSON
from dayfly.client.remote.failures import BadAnswer
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import ANSWER_SECONDS, Answer
from dayfly.client.remote.values import read_file_info
from dayfly.client.streams import closing
from dayfly.errors import DayflyError
from dayfly.spec import FileInfo

__all__ = ["FileCalls"]

PARTIAL = 206
BEYOND = 416


class FileCalls:
    """Files, directories and trees. Mixed into ``RemoteSandbox``. Every method raises ``SandboxFileError``."""

    _held: Held

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The content in pieces, in order."""
        if length == 0:
            await self.stat(path)  # nothing is to be read, but it must be there
            return
        answer = await self._part(path, offset, length)
        if answer is None:
            return
        size = 0
        async with closing(self._held.pieces(answer)) as pieces:
            async for piece in pieces:
                size += len(piece)
                if length is not None and size > length:
                    raise BadAnswer(f"the server sends more than the {length} bytes that were asked for")
                yield piece

    async def _part(self, path: str, offset: int, length: int | None) -> Answer | None:
        """The answer with that part of a file; ``None`` if the file ends before it."""
        whole = offset == 0 and length is None
        part = f"bytes={offset}-{'' if length is None else offset + length - 1}"
        try:
            answer = await self._held.send(
                "GET", "/files", query={"path": path}, headers={} if whole else {"range": part}, seconds=ANSWER_SECONDS
            )
        except DayflyError as error:
            if getattr(error, "http_status", None) == BEYOND:
                return None
            raise
        if not whole and answer.status != PARTIAL:
            await answer.aclose()
            raise BadAnswer("the server answers with the whole file where a part was asked for")
        return answer

    async def write_file(
        self, path: str, chunks: AsyncIterator[bytes], *, how: str = "replace", mode: int = 0o644, parents: bool = True
    ) -> int:
        """Write what ``chunks`` gives; returns the size in bytes. A ``replace`` that fails or is cancelled changes nothing."""
        query = {"path": path, "how": how, "mode": f"{mode & 0o777:o}", "parents": parents}
        return (await self._held.ask("PUT", "/files", query=query, content=chunks)).whole("size")

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """One entry."""
        return read_file_info(await self._held.ask("GET", "/files/info", query={"path": path, "follow": follow}))

    async def list_files(
        self, path: str, *, after: str | None = None, limit: int = 1000
    ) -> tuple[Sequence[FileInfo], bool]:
        """Up to ``limit`` entries after the name ``after``, sorted by name, and whether there are more."""
        told = await self._held.ask("GET", "/files/list", query={"path": path, "after": after, "limit": limit})
        return [read_file_info(one) for one in told.rows("files")], told.flag("more")

    async def make_directory(self, path: str, *, parents: bool = True, mode: int = 0o755) -> bool:
        """Make a directory; returns whether it is new."""
        body = {"path": path, "parents": parents, "mode": mode & 0o777}
        return (await self._held.ask("POST", "/files/mkdir", body=body)).flag("made")

    async def rename(self, path: str, to: str, *, replace: bool = True) -> None:
        """Rename within one file system."""
        await self._held.ask("POST", "/files/rename", body={"path": path, "to": to, "replace": replace})

    async def remove(self, path: str, *, recursive: bool = False) -> int:
        """Remove a file or directory; returns how many entries went."""
        told = await self._held.ask("POST", "/files/remove", body={"path": path, "recursive": recursive})
        return told.whole("removed")

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[tuple[str, str]]:
        """("ready", path) once it watches, then (kind, path) for every change."""
        answer = await self._held.send(
            "GET", "/files/watch", query={"path": path, "recursive": recursive}, headers=NDJSON
        )
        async with closing(self._held.objects(answer)) as changes:
            async for one in changes:
                yield one.text("kind"), one.text("path")

    async def pack_tree(self, path: str) -> AsyncIterator[bytes]:
        """A directory as a tar stream. Hostile: unpack it only with ``dayfly.client.trees``."""
        answer = await self._held.send("GET", "/tree", query={"path": path}, seconds=ANSWER_SECONDS)
        async with closing(self._held.pieces(answer)) as pieces:
            async for piece in pieces:
                yield piece

    async def unpack_tree(self, path: str, chunks: AsyncIterator[bytes]) -> int:
        """Unpack a tar stream into a directory inside; returns the number of members."""
        return (await self._held.ask("PUT", "/tree", query={"path": path}, content=chunks)).whole("files")

    async def configure(self, env: Mapping[str, str]) -> None:
        """Set environment variables for everything that is started from now on."""
        await self._held.ask("POST", "/environment", body={"env": dict(env)})
