"""The tenant's part of the journal: entries page by page, and the signed heads of its chains."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from dayfly.journal import Reader
from dayfly.server.answers import Answer
from dayfly.server.auth import Administrator
from dayfly.server.bodies import MAX_INTEGER
from dayfly.server.services import HasServices
from dayfly.server.views import Erased, HeadList, JournalPage

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/journal", tags=["journal"])

After = Annotated[int, Query(ge=0, le=MAX_INTEGER)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Chain = Annotated[str | None, Query(min_length=1, max_length=256)]


@routes.get("", response_model=JournalPage)
async def page(
    caller: Administrator, services: HasServices, after: After = 0, chain: Chain = None, limit: Limit = 100
) -> Answer:
    """The tenant's entries after that one. When "next" is what "after" was, there are no more."""
    if services.journal is None:
        return Answer(JournalPage([], after))
    return Answer(await asyncio.to_thread(_page, services.journal, caller.tenant, chain, after, limit))


@routes.get("/heads", response_model=HeadList)
async def heads(caller: Administrator, services: HasServices) -> Answer:
    """Where the tenant's chains stand, signed by this server: kept elsewhere, they show if anything was cut off."""
    if services.journal is None:
        return Answer(HeadList("", []))
    found = await asyncio.to_thread(Reader(services.journal).heads, caller.tenant)
    return Answer(HeadList(services.public_key.hex(), [one.as_json() for one in found]))


@routes.delete("/contents", response_model=Erased)
async def erase(caller: Administrator, services: HasServices) -> Answer:
    """Erase the tenant's code and output from the journal. Digests stay: its chains still verify."""
    return Answer(Erased(await services.tenants.erase_contents(caller.tenant)))


def _page(file: Path, tenant: str, chain: str | None, after: int, limit: int) -> JournalPage:
    found = list(islice(Reader(file).entries(chain, after=after, tenant=tenant), limit))
    return JournalPage([row.as_json() for row in found], found[-1].id if found else after)
