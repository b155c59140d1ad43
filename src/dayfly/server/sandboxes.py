"""Sandboxes: made, found, changed and ended."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path
from fastapi.requests import Request

from dayfly.errors import InputError, PolicyError
from dayfly.manager import Registration
from dayfly.network import parse_network
from dayfly.policy import Policy, parse_policy
from dayfly.saved import SavedOutputs
from dayfly.server.answers import Answer
from dayfly.server.auth import Owned, Reader, Runner, Seen, Used
from dayfly.server.bodies import (
    EnvironmentBody,
    ExtendBody,
    ForkBody,
    NetworkBody,
    OpeningBody,
    OutputsBody,
    PauseBody,
    QuarantineBody,
    TokenBody,
)
from dayfly.server.config import Configuration
from dayfly.server.errors import NoSuchTemplate
from dayfly.server.services import HasServices, Services
from dayfly.server.streams import unless_gone
from dayfly.server.views import ForkList, SandboxList, SandboxView, TokenMade, sandbox_view
from dayfly.spec import Usage

__all__ = ["ensure_live", "routes"]

routes = APIRouter(prefix="/v1", tags=["sandboxes"])

MOST_LISTED = 1000
"""Sandboxes of one listing: as many as a machine has live ones, 3 kB each."""

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=256)]
Conversation = Annotated[str, Path(min_length=1, max_length=256)]


@routes.post("/sandboxes", status_code=201, response_model=SandboxView)
async def create(
    caller: Runner,
    services: HasServices,
    request: Request,
    body: OpeningBody | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Answer:
    """Make a sandbox. With the same Idempotency-Key the same tenant gets the same one again."""
    wanted = body or OpeningBody()
    policy = _policy(wanted, services)
    with services.metrics.opening(wanted.template):
        making = services.tenants.create(
            caller.tenant, policy, env=wanted.env, template=wanted.template, idempotency_key=idempotency_key
        )
        # without a key nobody could ever find what a caller who is gone has asked for
        made = await (making if idempotency_key else unless_gone(request.receive, making))
    services.metrics.follow(made)
    return Answer(sandbox_view(made), 201)


@routes.post(
    "/conversations/{conversation:path}",
    response_model=SandboxView,
    responses={201: {"model": SandboxView, "description": "It was made."}},
)
async def converse(
    conversation: Conversation, caller: Runner, services: HasServices, body: OpeningBody | None = None
) -> Answer:
    """That conversation's sandbox; made if there is none."""
    wanted = body or OpeningBody()
    policy = _policy(wanted, services)
    with services.metrics.opening(wanted.template):
        found, made = await services.tenants.get_or_create(
            caller.tenant, conversation, policy, env=wanted.env, template=wanted.template
        )
    if made:
        services.metrics.follow(found)
    return Answer(sandbox_view(found), 201 if made else 200)


@routes.get("/sandboxes", response_model=SandboxList)
async def all_of_them(caller: Reader, services: HasServices) -> Answer:
    """The tenant's live ones, and those that ended in the last hour; the latest, if they are very many."""
    views = []
    for number, one in enumerate(services.tenants.registrations(caller.tenant)[-MOST_LISTED:]):
        views.append(sandbox_view(one))
        if number % 50 == 0:
            await asyncio.sleep(0)  # others are served meanwhile
    return Answer(SandboxList(views))


@routes.get("/sandboxes/{sandbox}", response_model=SandboxView)
async def one_of_them(registration: Seen) -> Answer:
    """One sandbox."""
    return Answer(sandbox_view(registration))


@routes.get("/sandboxes/{sandbox}/explain", response_model=dict[str, Any])
async def explain(registration: Seen) -> Answer:
    """What keeps it: the boundary, its version, each limit and how. Not the paths of this machine."""
    runsc = registration.life.explain().get("runsc") or {}
    return Answer(
        {"boundary": registration.policy.boundary, "version": runsc.get("version"), "limits": registration.limits}
    )


@routes.get("/sandboxes/{sandbox}/usage", response_model=Usage)
async def usage(registration: Seen) -> Answer:
    """What it used so far."""
    return Answer(ensure_live(registration).life.usage())


@routes.post("/sandboxes/{sandbox}/extend", response_model=SandboxView)
async def extend(registration: Owned, body: ExtendBody, services: HasServices) -> Answer:
    """Let it live for at least so long from now, within the policy's ceiling."""
    services.tenants.extend(ensure_live(registration), body.seconds)
    return Answer(sandbox_view(registration))


@routes.post("/sandboxes/{sandbox}/pause", response_model=SandboxView)
async def pause(registration: Owned, services: HasServices, body: PauseBody | None = None) -> Answer:
    """Stop it and keep its memory, encrypted on disk. Nothing may run in it at that moment."""
    registration.require_live()
    await services.tenants.pause(registration, (body or PauseBody()).seconds)
    return Answer(sandbox_view(registration))


@routes.post("/sandboxes/{sandbox}/resume", response_model=SandboxView)
async def resume(registration: Owned, services: HasServices) -> Answer:
    """Go on with it. One that is not paused stays as it is."""
    await services.tenants.resume(registration)
    return Answer(sandbox_view(registration))


@routes.post("/sandboxes/{sandbox}/fork", status_code=201, response_model=ForkList)
async def fork(registration: Owned, services: HasServices, request: Request, body: ForkBody | None = None) -> Answer:
    """Make copies that go on from where it is now. Nothing may run in it at that moment."""
    making = services.tenants.fork(ensure_live(registration), (body or ForkBody()).count)
    made = await unless_gone(request.receive, making)  # nobody could ever find what a caller who is gone has asked for
    for one in made:
        services.metrics.follow(one)
    renewed = made[0].life.renewed
    assert renewed is not None
    return Answer(ForkList([sandbox_view(one) for one in made], renewed.renewed, renewed.kept), 201)


@routes.post("/sandboxes/{sandbox}/environment", response_model=SandboxView)
async def environment(registration: Used, body: EnvironmentBody) -> Answer:
    """Set variables for what starts from now on."""
    await registration.life.configure(body.env)
    return Answer(sandbox_view(registration))


@routes.put("/sandboxes/{sandbox}/network", response_model=SandboxView)
async def network(registration: Owned, body: NetworkBody, services: HasServices) -> Answer:
    """What it may reach from now on, instead of what it could before. Connections that no rule allows any more are cut."""
    ensure_live(registration)
    rules = parse_network(body.network)
    services.configuration.network.check(rules)
    await services.tenants.set_network(registration, rules)
    return Answer(sandbox_view(registration))


@routes.post("/sandboxes/{sandbox}/outputs", response_model=SavedOutputs)
async def outputs(registration: Owned, services: HasServices, body: OutputsBody | None = None) -> Answer:
    """Save what its policy's outputs name, now: the files below their directories become objects. It goes on."""
    last = (body or OutputsBody()).last
    return Answer(await services.tenants.save_outputs(ensure_live(registration), last=last))


@routes.post("/sandboxes/{sandbox}/token", response_model=TokenMade)
async def token(registration: Owned, caller: Runner, body: TokenBody, services: HasServices) -> Answer:
    """A token with which this sandbox can be used, and nothing else done."""
    ensure_live(registration)
    services.tenants.check_journal()
    key, secret = await asyncio.to_thread(
        services.keys.create_token, registration.tenant, registration.id, body.seconds, caller.key
    )
    services.tenants.note("token.created", registration.tenant, {"id": key.id, "sandbox": registration.id})
    return Answer(TokenMade(secret, key.expires))


@routes.post("/sandboxes/{sandbox}/quarantine", response_model=SandboxView)
async def quarantine(registration: Owned, body: QuarantineBody, services: HasServices) -> Answer:
    """Destroy it and keep the reason. Its conversation gets a new one when it asks next."""
    ensure_live(registration)
    await asyncio.shield(services.tenants.quarantine(registration, body.reason, replace=False))
    return Answer(sandbox_view(registration))


@routes.delete("/sandboxes/{sandbox}", response_model=SandboxView)
async def end(registration: Owned, services: HasServices) -> Answer:
    """End it. When this answers, nothing of it is left, on the disk either."""
    await asyncio.shield(services.tenants.end(registration))
    return Answer(sandbox_view(registration))


def ensure_live(registration: Registration) -> Registration:
    """Raises ``SandboxEnded``, also for one that is paused."""
    registration.require_live()
    assert registration.life
    return registration


def _policy(wanted: OpeningBody, services: Services) -> Policy:
    """Raises ``PolicyError``, ``InputError`` or ``NoSuchTemplate``."""
    if wanted.template is None:
        return _foreign(wanted.policy or {}, services.configuration)
    if wanted.policy is not None:
        raise InputError("give a policy or a template, not both", remedy="leave one of them out")
    for template in services.tenants.templates:
        if template.name == wanted.template:
            return template.policy
    raise NoSuchTemplate(f"no template {wanted.template!a:.80}", remedy="GET /v1/templates lists those that are there")


def _foreign(policy: dict[str, Any], configuration: Configuration) -> Policy:
    """A policy of somebody who may not read this machine's files (looking at a mount would already tell what exists), nor
    reach what lies around it, nor have more of it than the operator allows. Raises ``PolicyError``."""
    if policy.get("mounts"):
        raise PolicyError(
            "mounts name files of the server's machine: over HTTP no policy may have them",
            remedy="upload the files, or have the server's operator make a template that mounts them",
        )
    if policy.get("accept_unenforced"):
        raise PolicyError("which limits may go unenforced is for the server's operator to say", remedy="leave it out")
    parsed = parse_policy(policy)
    configuration.network.check_policy(parsed)
    for name, asked in parsed.limits:
        most = getattr(configuration.ceilings, name)
        if asked > most:
            raise PolicyError(f"limits.{name} may be {most:g} here at most, not {asked:g}", remedy="ask for less")
    return parsed
