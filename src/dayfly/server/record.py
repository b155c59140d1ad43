"""The tenant's part of the journal: entries page by page, and the signed heads of its chains."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query

from dayfly.journal import SERVER, Reader
from dayfly.journal.audit import BEGUN
from dayfly.server.answers import Answer
from dayfly.server.auth import Administrator
from dayfly.server.services import HasServices
from dayfly.server.views import HeadList, JournalPage

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/journal", tags=["journal"])

MAX_LOOKED_AT = 20_000
"""Entries of all tenants that one page looks through: some 50 ms. An empty page with another ``next`` is not the end."""

After = Annotated[int, Query(ge=0, le=2**53)]
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
    found = await asyncio.to_thread(_heads, services.journal, caller.tenant)
    return Answer(HeadList(services.public_key.hex(), found))


def _page(file: Path, tenant: str, chain: str | None, after: int, limit: int) -> JournalPage:
    found: list[dict[str, Any]] = []
    for row in islice(Reader(file).entries(chain, after=after), MAX_LOOKED_AT):
        after, entry = row.id, row.entry
        if entry.tenant != tenant:
            continue
        found.append(
            {
                "id": row.id,
                "chain": entry.chain,
                "number": entry.number,
                "at": entry.at / 1e9,
                "kind": entry.kind,
                "facts": json.loads(entry.facts),
                "hash": row.hash.hex(),
                "previous": entry.previous.hex(),
            }
        )
        if len(found) == limit:
            break
    return JournalPage(found, after)


def _heads(file: Path, tenant: str) -> list[dict[str, Any]]:
    reader = Reader(file)
    begun = (row.entry for row in reader.entries(SERVER) if row.entry.kind == BEGUN and row.entry.tenant == tenant)
    chains = {json.loads(entry.facts)["chain"] for entry in begun}
    return [
        {
            "chain": one.head.chain,
            "number": one.head.number,
            "hash": one.head.hash.hex(),
            "signature": one.signature.hex(),
        }
        for one in reader.heads()
        if one.head.chain in chains
    ]
