"""Commands: started, followed and talked to."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.requests import Request
from fastapi.responses import Response

from dayfly.errors import NoSuchProcess
from dayfly.server.answers import Answer
from dayfly.server.attached import Handle
from dayfly.server.auth import Used
from dayfly.server.bodies import MAX_INTEGER, ProcessBody, ResizeBody, SignalBody
from dayfly.server.sandboxes import ensure_live
from dayfly.server.services import HasServices
from dayfly.server.streams import EVENTS, Lines, Stream, body_of, described_body
from dayfly.server.views import ProcessList

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/sandboxes/{sandbox}/processes", tags=["processes"])

Pid = Annotated[int, Path(ge=1, le=2**31 - 1)]


class _Sink:
    """Makes lines of output, once the line that says what was started is written."""

    def __init__(self) -> None:
        self._lines: asyncio.Future[Lines] = asyncio.get_running_loop().create_future()

    def begin(self, lines: Lines) -> None:
        self._lines.set_result(lines)

    async def stdout(self, data: bytes) -> None:
        await (await asyncio.shield(self._lines)).write({"type": "stdout", "data": data})

    async def stderr(self, data: bytes) -> None:
        await (await asyncio.shield(self._lines)).write({"type": "stderr", "data": data})


@routes.post("", responses=EVENTS, response_class=Response)
async def start(registration: Used, body: ProcessBody, services: HasServices) -> Stream:
    """Start a command and follow it. When the caller is gone, it ends, unless it was started detached."""
    sink = _Sink()
    process = await ensure_live(registration).life.start_process(
        body.argv,
        env=body.env,
        cwd=body.cwd,
        pty=body.pty,
        stdin=body.stdin,
        detached=body.detached,
        timeout=body.timeout,
        output=body.output,
        sink=sink,
    )

    async def work(lines: Lines) -> None:
        with services.attached.attach(registration.id, process, started=True):
            await _told(process, sink, lines, stop=not body.detached)

    return Stream(work)


@routes.get("", response_model=ProcessList)
async def all_of_them(registration: Used) -> Answer:
    """Commands that were started, running or ended."""
    return Answer(ProcessList(await registration.life.list_processes()))


@routes.get("/{pid}/output", responses=EVENTS, response_class=Response)
async def output(
    registration: Used,
    pid: Pid,
    services: HasServices,
    output: Annotated[int | None, Query(ge=0, le=MAX_INTEGER)] = None,
) -> Stream:
    """Follow one that was started before. When this reader is gone, it goes on."""
    sink = _Sink()
    process = await ensure_live(registration).life.connect_process(pid, output=output, sink=sink)

    async def work(lines: Lines) -> None:
        with services.attached.attach(registration.id, process, started=False):
            await _told(process, sink, lines, stop=False)

    return Stream(work)


@routes.post("/{pid}/stdin", response_model=dict[str, Any], openapi_extra=described_body())
async def stdin(registration: Used, pid: Pid, request: Request, services: HasServices, close: bool = False) -> Answer:
    """The body's bytes are its input; with close=true they are the last."""
    process = services.attached.find(ensure_live(registration).id, pid, started=True)
    try:
        async for piece in body_of(request.receive):
            await process.write_stdin(piece)
        if close:
            await process.close_stdin()
    except BrokenPipeError:
        raise NoSuchProcess(f"process {pid} has ended", remedy="start another one") from None
    return Answer({})


@routes.post("/{pid}/signal", response_model=dict[str, Any])
async def signal(registration: Used, pid: Pid, body: SignalBody) -> Answer:
    """Send a signal to its process group."""
    await registration.life.signal_process(pid, body.signal)
    return Answer({})


@routes.post("/{pid}/resize", response_model=dict[str, Any])
async def resize(registration: Used, pid: Pid, body: ResizeBody, services: HasServices) -> Answer:
    """Give its terminal another size."""
    process = services.attached.find(ensure_live(registration).id, pid, started=False)
    await process.resize(body.rows, body.columns)
    return Answer({})


async def _told(process: Handle, sink: _Sink, lines: Lines, *, stop: bool) -> None:
    """Write what happens until the end; when the reader is gone, stop the command or leave it."""
    try:
        await lines.write({"type": "started", "pid": process.pid})
        await lines.flush()  # whoever gives it input waits for that
        sink.begin(lines)
        result = vars(await process.wait())
    except asyncio.CancelledError:
        await (process.stop() if stop else process.detach())
        raise
    told = {name: value for name, value in result.items() if name not in ("stdout", "stderr")}
    await lines.write({"type": "end", "result": told})
