"""What belongs to a tenant beside sandboxes: keys, usage, templates."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from fastapi import APIRouter

from dayfly.server.answers import Answer
from dayfly.server.auth import Administrator, Reader
from dayfly.server.bodies import KeyBody
from dayfly.server.services import HasServices
from dayfly.server.views import KeyList, KeyMade, KeyView, TemplateList, TemplateView, UsageView, key_view

__all__ = ["routes"]

routes = APIRouter(prefix="/v1", tags=["tenant"])


@routes.post("/keys", status_code=201, response_model=KeyMade)
async def create_key(caller: Administrator, body: KeyBody, services: HasServices) -> Answer:
    """A new key of this tenant. It is shown in this answer, and never again."""
    services.tenants.check_journal()
    key, secret = await asyncio.to_thread(
        services.keys.create, caller.tenant, body.name, body.scopes, expires_in=body.expires_in
    )
    services.tenants.note("key.created", caller.tenant, {"id": key.id, "scopes": list(key.scopes), "by": caller.key})
    return Answer(KeyMade(**vars(key_view(key)), key=secret), 201)


@routes.get("/keys", response_model=KeyList)
async def list_keys(caller: Administrator, services: HasServices) -> Answer:
    """The tenant's keys, the revoked ones too."""
    keys = await asyncio.to_thread(services.keys.list, caller.tenant)
    return Answer(KeyList([key_view(key) for key in keys]))


@routes.delete("/keys/{key}", response_model=KeyView)
async def revoke_key(key: str, caller: Administrator, services: HasServices) -> Answer:
    """From now on nothing can be done with it."""
    services.tenants.check_journal()
    revoked = await asyncio.to_thread(services.keys.revoke, key, caller.tenant)
    services.tenants.note("key.revoked", caller.tenant, {"id": revoked.id, "by": caller.key})
    return Answer(key_view(revoked))


@routes.get("/usage", response_model=UsageView)
async def usage(caller: Reader, services: HasServices) -> Answer:
    """What the tenant has now and used today, beside what it may."""
    used = services.tenants.usage(caller.tenant)
    allowed = asdict(used.allowed)
    allowed["cpu_seconds_today"] = allowed.pop("cpu_seconds_per_day")
    return Answer(UsageView(used.sandboxes, used.memory, used.cpus, used.cpu_seconds_today, used.paused_bytes, allowed))


@routes.get("/templates", response_model=TemplateList)
async def templates(caller: Reader, services: HasServices) -> Answer:
    """The names that a new sandbox can be made from."""
    ready = services.tenants.ready
    return Answer(
        TemplateList(
            [
                TemplateView(one.name, one.policy.image, one.spares, ready[one.name])
                for one in services.tenants.templates
            ]
        )
    )
