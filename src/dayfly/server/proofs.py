"""Proofs over HTTP: how this server's sandboxes stand for every tenant, and what was found, whole, for its operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response

from dayfly.errors import InputError
from dayfly.server.answers import Answer
from dayfly.server.auth import Caller, Reader, allowed
from dayfly.server.errors import NoSuchProof
from dayfly.server.keys import PROOFS
from dayfly.server.proven import Made, Subject
from dayfly.server.proving import Proving, Standing
from dayfly.server.services import HasServices, Services
from dayfly.server.views import ProofList, ProofView

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/proofs", tags=["proofs"])

Operator = Annotated[Caller, Depends(allowed(PROOFS))]


@routes.get("", response_model=ProofList)
async def all_of_them(caller: Reader, services: HasServices) -> Answer:
    """Each template's last proof, and that of sandboxes that callers bring a policy for (template null)."""
    if services.proving is None:
        return Answer(ProofList([], False))
    views = [_view(*one) for one in services.proving.all()]
    return Answer(ProofList(views, services.proving.required))


@routes.get("/{proof}", responses={200: {"content": {"application/json": {}}}}, response_class=Response)
async def one_of_them(proof: Annotated[str, Path(max_length=64)], caller: Operator, services: HasServices) -> Response:
    """The whole report, as `dayfly prove --json` prints it. Needs the scope `proofs`."""
    made = _proving(services).find(proof)
    if made is None or made.proven is None:
        raise NoSuchProof(
            f"no report of a proof {proof!a:.80} here", remedy="the journal has older ones, and why there is none"
        )
    return Response(made.proven.report, media_type="application/json")


@routes.post("", status_code=202, response_model=ProofList)
async def again(caller: Operator, services: HasServices) -> Answer:
    """Have all proofs made again, now; this does not wait for them. Needs the scope `proofs`."""
    services.tenants.check_journal()
    proving = _proving(services)
    proving.ask()
    services.tenants.note("proof.asked", caller.tenant, {"by": caller.key})
    return Answer(ProofList([_view(*one) for one in proving.all()], proving.required), 202)


def _proving(services: Services) -> Proving:
    if services.proving is None:
        raise InputError("this server makes no proofs", remedy="leave prove = false out of its configuration")
    return services.proving


def _view(subject: Subject, standing: Standing, made: Made | None) -> ProofView:
    proven = made.proven if made is not None else None
    return ProofView(
        template=subject.template or None,
        standing=standing,
        id=made.id if made is not None else None,
        at=made.at if made is not None else None,
        green=made.green if made is not None else None,
        seconds=proven.seconds if proven is not None else None,
        counts=proven.counts if proven is not None else None,
    )
