"""The server against its own OpenAPI document: whatever is sent, no 5xx and no answer that is not described.

Half of the calls are about a sandbox that lives; those that would end it, or never end themselves, are about none.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import iscoroutinefunction
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dayfly.server.app import ROUTES, STATUSES
from tests.server.house import TINY, House

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

ERROR = {"$ref": "#/components/schemas/ErrorAnswer"}

DEADLY = {"/v1/sandboxes/{sandbox}/quarantine", "/v1/sandboxes/{sandbox}/files/watch"}

SECONDS = 60.0
"""For one answer: more than any run of the sandbox's policy takes."""

PAUSED = 3600.0
"""How many seconds a pause may take at least: longer than this test."""


@pytest.fixture
def living(server: House) -> Iterator[tuple[str, dict[str, str]]]:
    """A sandbox of a tenant that may have no other, and what its calls must carry."""
    client = server.client("poor", "admin")
    policy = {**TINY, "limits": {"memory": "256MiB", "run_seconds": 1}}
    sandbox = client.post("/v1/sandboxes", json={"policy": policy}).json()["id"]
    yield sandbox, {"authorization": client.headers["authorization"]}
    last = client.get(f"/v1/sandboxes/{sandbox}").json()
    assert last["state"] == "ready", f"nothing of all this may harm it: {last}"
    client.delete(f"/v1/sandboxes/{sandbox}")


@schemathesis.serializer("application/x-tar")
def as_it_is(_context: Any, value: Any) -> Any:
    """A tar stream of noise."""
    return value if isinstance(value, (str, bytes)) else bytes(value)


EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_every_answer_is_described(server: House, living: tuple[str, dict[str, str]]) -> None:
    described = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 30
    answered = {operation.label: _statuses(operation, *living) for operation in operations}
    assert sum(any(status < 300 for status in statuses) for statuses in answered.values()) > 15, answered


def _statuses(operation: Any, sandbox: str, headers: dict[str, str]) -> set[int]:
    found: set[int] = set()

    @EXAMPLES
    @given(case=operation.as_strategy())
    def answers(case: Any) -> None:
        if "sandbox" in case.path_parameters and case.method != "DELETE" and case.path not in DEADLY:
            case.path_parameters["sandbox"] = sandbox
        if isinstance(case.body, dict):
            _harmless(case.body)
        found.add(case.call_and_validate(headers=headers, checks=CHECKS, timeout=SECONDS).status_code)

    answers()
    return found


def _harmless(body: dict[str, Any]) -> None:
    """A run is short, and a pause long: a sandbox whose pause is over ends."""
    if "timeout" in body:
        body["timeout"] = 1
    if isinstance(body.get("seconds"), float | int) and 0 < body["seconds"] < PAUSED:
        body["seconds"] = PAUSED


def test_every_error_is_described_in_the_one_form(server: House) -> None:
    document = server.client().get("/v1/openapi.json").json()
    assert "error" in document["components"]["schemas"]["ErrorAnswer"]["properties"]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) > 30
    for operation in operations:
        told = {status: operation["responses"][str(status)].get("content") for status in STATUSES}
        if operation["operationId"].startswith("ready"):
            assert told.pop(503) is None, "it has an answer of its own"
        assert all(one == {"application/json": {"schema": ERROR}} for one in told.values()), operation


def test_no_call_takes_a_detour_through_a_thread() -> None:
    """The framework runs whatever is no coroutine in one, and that costs as much as a trivial run."""
    dependants = [route.dependant for routes in ROUTES for route in routes.routes]  # type: ignore[attr-defined]
    while dependants:
        one = dependants.pop()
        assert iscoroutinefunction(one.call) or iscoroutinefunction(type(one.call).__call__), one.call
        dependants += one.dependencies
