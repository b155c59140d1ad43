"""Running code, whole or as it goes, and the contexts that it runs in."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.requests import Request
from fastapi.responses import Response

from dayfly.errors import DayflyError
from dayfly.server.answers import Answer
from dayfly.server.auth import Seen, Used
from dayfly.server.bodies import MAX_INTEGER, ExecutionBody
from dayfly.server.errors import NoSuchExecution
from dayfly.server.running import Log
from dayfly.server.sandboxes import ensure_live
from dayfly.server.services import HasServices, Services, services_of
from dayfly.server.streams import EVENTS, NDJSON, Lines, Stream, unless_gone
from dayfly.server.views import ContextList, ContextView, Interrupted
from dayfly.spec import Execution

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/sandboxes/{sandbox}", tags=["executions"])


@routes.post("/executions", response_model=Execution, responses=EVENTS)
async def execute(
    registration: Used,
    body: ExecutionBody,
    request: Request,
    accept: Annotated[str, Header()] = "",
) -> Response:
    """Run code. The answer is the execution, or with Accept: application/x-ndjson its events while it goes on."""
    ensure_live(registration)
    services = services_of(request)

    async def attached(lines: Lines) -> None:
        await services.executions.follow(registration, body, lines, services.metrics)

    async def kept(lines: Lines) -> None:
        log = Log()
        services.executions.begin(registration, body, log, services.metrics)
        await log.follow(0, lines)

    if NDJSON in accept:
        return Stream(kept if body.on_disconnect == "keep" else attached)
    return Answer(await _whole(registration, body, request, services))


async def _whole(registration: Used, body: ExecutionBody, request: Request, services: Services) -> Execution:
    """The execution when it is over. Raises ``ClientGone``, and then it is stopped, unless it is to go on."""
    work = registration.life.execute(
        body.code, language=body.language, context=body.context, timeout=body.timeout, output=body.output
    )
    try:
        if body.on_disconnect == "keep":
            execution = await asyncio.shield(services.executions.keep(work))
        else:
            execution = await unless_gone(request.receive, work)
    except (DayflyError, asyncio.CancelledError):  # a caller who is gone is one of the former
        services.metrics.failed()
        raise
    services.metrics.ran(execution)
    return execution


@routes.get("/executions/{execution}", responses=EVENTS, response_class=Response)
async def replay(
    registration: Seen, execution: str, services: HasServices, after: Annotated[int, Query(ge=0, le=MAX_INTEGER)] = 0
) -> Stream:
    """The events of a kept run after the given number, and those that still come."""
    log = services.executions.find(registration.id, execution).target
    if not isinstance(log, Log):
        raise NoSuchExecution("this run is not kept", remedy='start it with "on_disconnect": "keep"')

    async def follow(lines: Lines) -> None:
        await log.follow(after, lines)

    return Stream(follow)


@routes.post("/executions/{execution}/interrupt", response_model=Interrupted)
async def interrupt(registration: Used, execution: str, services: HasServices) -> Answer:
    """End a run. Its last event says how."""
    return Answer(Interrupted(services.executions.find(registration.id, execution).interrupt()))


@routes.get("/contexts", response_model=ContextList)
async def contexts(registration: Used) -> Answer:
    """The kernels that are there."""
    found = await registration.life.contexts()
    return Answer(ContextList([ContextView(one.name, one.language, one.busy) for one in found]))


@routes.delete("/contexts/{name:path}", response_model=ContextList)
async def remove_context(registration: Used, name: str) -> Answer:
    """End a kernel and all it started."""
    await registration.life.remove_context(name)
    return await contexts(registration)
