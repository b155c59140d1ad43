"""Files and directories inside, streamed both ways."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal, cast
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Header, Query
from fastapi.requests import Request
from fastapi.responses import Response

from dayfly.errors import DayflyError
from dayfly.server.answers import Answer
from dayfly.server.asgi import Receive, Scope, Send
from dayfly.server.auth import Used
from dayfly.server.bodies import MkdirBody, RemoveBody, RenameBody
from dayfly.server.errors import ClientGone, RangeUnsatisfiable
from dayfly.server.sandboxes import ensure_live
from dayfly.server.streams import BINARY, BYTES, EVENTS, Lines, Stream, body_of, described_body, unless_gone
from dayfly.server.views import FileList, MadeDirectory, Removed, Unpacked, Written
from dayfly.spec import FileInfo

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/sandboxes/{sandbox}", tags=["files"])

TAR = "application/x-tar"

_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))", re.ASCII)


async def _path(request: Request, path: Annotated[str, Query(min_length=1, max_length=4096)]) -> str:
    return _raw(request, "path", path)


async def _after(request: Request, after: Annotated[str | None, Query(max_length=4096)] = None) -> str | None:
    return None if after is None else _raw(request, "after", after)


def _raw(request: Request, name: str, decoded: str) -> str:
    """With undecodable bytes as lone surrogates (PEP 383): the framework replaces them, and then it is another name."""
    if "\ufffd" not in decoded:
        return decoded
    query = cast(bytes, request.scope["query_string"]).decode("latin-1")
    return parse_qs(query, keep_blank_values=True, errors="surrogateescape")[name][-1]


InPath = Annotated[str, Depends(_path)]
InAfter = Annotated[str | None, Depends(_after)]


def _content(kind: str, *statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"content": {kind: BINARY}, "description": "The content."} for status in (200, *statuses)}


class _Content(Response):
    """Bytes that come out of a sandbox, in pieces. What breaks off ends without its last chunk, so that it shows."""

    def __init__(
        self, first: bytes, rest: AsyncGenerator[bytes, None], media_type: str, status: int = 200, span: str = ""
    ) -> None:
        headers = {"content-type": media_type, "content-disposition": "attachment", "accept-ranges": "bytes"}
        super().__init__(None, status, {**headers, **({"content-range": span} if span else {})})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with aclosing(self._rest):
                await unless_gone(receive, self._pour(send))
        except (ClientGone, DayflyError):
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pour(self, send: Send) -> None:
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for piece in self._rest:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)  # sending to nobody does not wait: others must have their turn, too


async def _opened(pieces: object, media_type: str, status: int = 200, span: str = "") -> _Content:
    """Not before the first piece is there: until then an error has a status of its own."""
    generator = cast("AsyncGenerator[bytes, None]", pieces)
    return _Content(await anext(generator, b""), generator, media_type, status, span)


@routes.get("/files", responses=_content(BYTES, 206), response_class=Response)
async def read(registration: Used, path: InPath, span: Annotated[str, Header(alias="range")] = "") -> Response:
    """A file's content, or with Range: bytes=a-b a part of it."""
    life = ensure_live(registration).life
    match = _RANGE.fullmatch(span)
    if match is None:
        return await _opened(life.read_file(path), BYTES)
    size = (await life.stat(path)).size
    start, end = _span(match, size)
    part = f"bytes {start}-{end - 1}/{size}"
    return await _opened(life.read_file(path, offset=start, length=end - start), BYTES, 206, part)


def _span(match: re.Match[str], size: int) -> tuple[int, int]:
    """From and to which byte; the end is not included. Raises ``RangeUnsatisfiable``."""
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size - int(suffix)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= end:
        raise RangeUnsatisfiable(f"the file has {size} bytes", remedy=f"ask for some of bytes=0-{max(0, size - 1)}")
    return start, end


@routes.put("/files", response_model=Written, openapi_extra=described_body())
async def write(
    registration: Used,
    path: InPath,
    request: Request,
    how: Literal["replace", "append", "create"] = "replace",
    mode: Annotated[str, Query(pattern="^[0-7]{1,4}$")] = "644",
    parents: bool = True,
) -> Answer:
    """The body becomes the file's content. A replace that breaks off changes nothing."""
    life = ensure_live(registration).life
    size = await life.write_file(path, body_of(request.receive), how=how, mode=int(mode, 8), parents=parents)
    return Answer(Written(size))


@routes.get("/files/info", response_model=FileInfo)
async def info(registration: Used, path: InPath, follow: bool = True) -> Answer:
    """One entry."""
    return Answer(await registration.life.stat(path, follow=follow))


@routes.get("/files/list", response_model=FileList)
async def listing(
    registration: Used, path: InPath, after: InAfter, limit: Annotated[int, Query(ge=1, le=1000)] = 1000
) -> Answer:
    """Entries of a directory after that name, sorted by name."""
    found, more = await registration.life.list_files(path, after=after, limit=limit)
    return Answer(FileList(found, more))


@routes.post("/files/mkdir", response_model=MadeDirectory)
async def mkdir(registration: Used, body: MkdirBody) -> Answer:
    """Make a directory. Whether it is new."""
    return Answer(
        MadeDirectory(await registration.life.make_directory(body.path, parents=body.parents, mode=body.mode))
    )


@routes.post("/files/rename", response_model=dict[str, Any])
async def rename(registration: Used, body: RenameBody) -> Answer:
    """Rename within one file system."""
    await registration.life.rename(body.path, body.to, replace=body.replace)
    return Answer({})


@routes.post("/files/remove", response_model=Removed)
async def remove(registration: Used, body: RemoveBody) -> Answer:
    """Remove a file or directory. How many entries went."""
    return Answer(Removed(await registration.life.remove(body.path, recursive=body.recursive)))


@routes.get("/files/watch", responses=EVENTS, response_class=Response)
async def watch(registration: Used, path: InPath, recursive: bool = False) -> Stream:
    """Changes from now on, a line each; the first line is "ready"."""
    changes = cast(
        "AsyncGenerator[tuple[str, str], None]", ensure_live(registration).life.watch(path, recursive=recursive)
    )
    first = await anext(changes, None)

    async def work(lines: Lines) -> None:
        async with aclosing(changes):
            if first is not None:
                await lines.write({"kind": first[0], "path": first[1]})
            async for kind, changed in changes:
                await lines.write({"kind": kind, "path": changed})

    return Stream(work, numbered=False)


@routes.get("/tree", responses=_content(TAR), response_class=Response)
async def pack(registration: Used, path: InPath) -> Response:
    """A directory as a tar stream. It is as hostile as the code inside: unpack it only with what confines it."""
    return await _opened(ensure_live(registration).life.pack_tree(path), TAR)


@routes.put("/tree", response_model=Unpacked, openapi_extra=described_body(TAR))
async def unpack(registration: Used, path: InPath, request: Request) -> Answer:
    """A tar stream into a directory."""
    return Answer(Unpacked(await ensure_live(registration).life.unpack_tree(path, body_of(request.receive))))
