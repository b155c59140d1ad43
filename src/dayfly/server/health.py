"""For whoever watches the server: does it answer, can it work, how much does it do."""

from __future__ import annotations

import ipaddress

from fastapi import APIRouter
from fastapi.requests import Request
from fastapi.responses import Response

from dayfly.server.answers import Answer
from dayfly.server.auth import authenticate, check_may
from dayfly.server.keys import METRICS
from dayfly.server.logs import log
from dayfly.server.services import HasServices

__all__ = ["routes"]

routes = APIRouter(tags=["health"])


@routes.get("/healthz", response_model=dict[str, str])
async def alive() -> Answer:
    """The process answers."""
    return Answer({"status": "ok"})


@routes.get("/readyz", response_model=dict[str, str], responses={503: {"description": "It cannot make sandboxes."}})
async def ready(services: HasServices) -> Answer:
    """It can make sandboxes."""
    problem = (services.proving.problem() if services.proving else None) or await services.unready()
    if problem is None:
        return Answer({"status": "ok"})
    log.warning("not ready", extra={"facts": {"problem": problem}})
    return Answer({"status": "unready"}, 503)


@routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, services: HasServices) -> Response:
    """Prometheus: for this machine itself without a key; for others, and behind a proxy, with the scope `metrics`."""
    if services.configuration.behind_proxy or not _is_local(request):
        check_may(authenticate(request, services), METRICS, token=False)
    return Response(
        services.metrics.render(services.tenants, services.proving),
        media_type="text/plain; version=0.0.4; charset=utf-8",
    )


def _is_local(request: Request) -> bool:
    return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
