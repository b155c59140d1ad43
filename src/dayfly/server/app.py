"""The application: all routes, one form of errors, and a guard around it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.requests import Request
from fastapi.websockets import WebSocket

from dayfly.errors import DayflyError, InputError
from dayfly.server import executions, files, health, ports, processes, proofs, record, sandboxes, tenant
from dayfly.server.answers import Answer, error_answer
from dayfly.server.asgi import Asgi
from dayfly.server.errors import BodyTooLarge, NoSuchRoute, WrongMethod
from dayfly.server.guard import MAX_BODY, Guard, internal_error
from dayfly.server.services import Services
from dayfly.server.views import ErrorAnswer

__all__ = ["create_app"]

ROUTES: tuple[APIRouter, ...] = (
    executions.routes,
    processes.routes,
    files.routes,
    sandboxes.routes,
    ports.routes,
    tenant.routes,
    record.routes,
    proofs.routes,
    health.routes,
)
"""What is asked for most comes first: they are tried in turn."""

STATUSES = (400, 401, 403, 404, 405, 409, 410, 413, 414, 416, 429, 431, 500, 502, 503, 507)

_ERROR = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorAnswer.__name__}"}}}

ERRORS: dict[int | str, dict[str, Any]] = {
    **{status: {"description": "An error.", "content": _ERROR} for status in STATUSES},
    400: {"model": ErrorAnswer, "description": "An error."},
}
"""The model is told once, and all others point to it: for each that is told, the framework makes a validator at each route,
which took half of the time that a server needs to start."""


def create_app(services: Services) -> Asgi:
    """The ASGI application over ``services``."""
    app = FastAPI(
        title="dayfly",
        version=version("dayfly"),
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
        redirect_slashes=False,
    )
    app.state.services = services
    for routes in ROUTES:
        app.include_router(routes)
    _handle_errors(app)
    _describe_security(app)
    return Guard(app, services)


def _handle_errors(app: FastAPI) -> None:
    app.add_exception_handler(DayflyError, _told)
    for malformed in (RequestValidationError, WebSocketRequestValidationError):
        app.add_exception_handler(malformed, _malformed)
    app.add_exception_handler(Exception, internal_error)
    for status in (400, 404, 405, 413):
        app.add_exception_handler(status, _refused)


async def _told(_request: Request | WebSocket, error: Exception) -> Answer:
    assert isinstance(error, DayflyError)
    return error_answer(error)


async def _malformed(_request: Request | WebSocket, error: Exception) -> Answer:
    """What does not fit the description; never with the values, which may be secrets."""
    assert isinstance(error, (RequestValidationError, WebSocketRequestValidationError))
    problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:8]]
    remedy = "GET /v1/openapi.json describes what each call takes"
    return error_answer(InputError("; ".join(problems)[:2000], remedy=remedy))


async def _refused(_request: Request | WebSocket, error: Exception) -> Answer:
    """What the framework itself refuses."""
    kinds: dict[int, DayflyError] = {
        400: InputError("the body is not JSON", remedy="send JSON in UTF-8, with Content-Type: application/json"),
        404: NoSuchRoute("there is no such path here", remedy="GET /v1/openapi.json lists those that are there"),
        405: WrongMethod("not with this method", remedy="GET /v1/openapi.json lists those that are there"),
        413: BodyTooLarge(f"the body has more than {MAX_BODY} bytes", remedy="upload large content as a file"),
    }
    answer = error_answer(kinds[getattr(error, "status_code", 400)])
    for name, value in (getattr(error, "headers", None) or {}).items():
        answer.headers[name] = value
    return answer


def _describe_security(app: FastAPI) -> None:
    """Into the OpenAPI document: who must show what. And out of it: the framework's own 422, which never comes."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for path in ("/healthz", "/readyz"):
        document["paths"][path]["get"]["security"] = []
