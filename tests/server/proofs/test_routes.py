"""Proofs over HTTP: how all stands, for everybody; what was found, for the operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dayfly.server.proving import Proving
from tests.server.house import House
from tests.server.proofs.provers import OWN, REPORT, SMALL, ScriptedProver


@pytest.fixture
def proving(server: House) -> Iterator[Proving]:
    """The server's, of which that of a template is red."""

    async def looked() -> Proving:
        prover = ScriptedProver()
        prover.green = {"small": False}
        made = Proving([OWN, SMALL], prover, required=True)
        await made.look()
        return made

    server.services.proving = server.call(looked())
    assert server.services.proving is not None
    yield server.services.proving
    server.services.proving = None


def test_every_tenant_sees_how_it_stands_and_not_what_is_wrong(server: House, proving: Proving) -> None:
    answer = server.client("t", "read").get("/v1/proofs")
    assert answer.status_code == 200
    assert answer.json()["required"] is True
    own, small = answer.json()["proofs"]
    assert (own["template"], own["standing"], own["green"], own["seconds"]) == (None, "green", True, 18.5)
    assert own["counts"] == {"denied": 200, "reached": 14}
    assert (small["template"], small["standing"], small["green"]) == ("small", "red", False)
    assert "dns.1" not in answer.text
    assert "runsc" not in answer.text


def test_the_whole_report_is_for_who_may_read_proofs(server: House, proving: Proving) -> None:
    path = f"/v1/proofs/{server.client('t', 'read').get('/v1/proofs').json()['proofs'][0]['id']}"
    for scope in ("read", "run", "admin", "metrics"):
        assert server.client("t", scope).get(path).status_code == 403
    whole = server.client("ops", "proofs").get(path)
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, REPORT, "application/json")
    for unknown in ("0", "x" * 64, "..%2f..%2fetc"):
        assert server.client("ops", "proofs").get(f"/v1/proofs/{unknown}").status_code == 404
    assert server.client("ops", "proofs").get(f"/v1/proofs/{'x' * 65}").status_code == 400


def test_whoever_may_can_have_them_made_again(server: House, proving: Proving) -> None:
    assert server.client("t", "admin").post("/v1/proofs").status_code == 403
    asked = server.client("ops", "proofs").post("/v1/proofs")
    assert asked.status_code == 202
    assert len(asked.json()["proofs"]) == 2
    assert server.entries("proof.asked")[-1].tenant == "ops"
    before = proving.all()
    server.call(proving.look())
    assert all(new is not old for (_, _, new), (_, _, old) in zip(proving.all(), before, strict=True))


def test_a_key_for_proofs_is_made_on_the_machine_only(server: House) -> None:
    body = {"name": "x", "scopes": ["proofs"]}
    assert server.client("t", "admin").post("/v1/keys", json=body).status_code == 400


def test_metrics_tell_the_age_of_the_last_green_one(server: House, proving: Proving) -> None:
    lines = server.with_secret(None).get("/metrics").text.splitlines()
    assert 'dayfly_proof_green{template=""} 1.0' in lines
    assert 'dayfly_proof_green{template="small"} 0.0' in lines
    (age,) = [line for line in lines if line.startswith("dayfly_proof_green_age_seconds{")]
    assert age.startswith('dayfly_proof_green_age_seconds{template=""} ')
    assert 0 <= float(age.rpartition(" ")[2]) < 60


def test_where_nothing_is_proven_yet_the_server_is_not_ready(server: House) -> None:
    async def unproven() -> Proving:
        return Proving([OWN], ScriptedProver(), required=True)

    nobody = server.with_secret(None)
    server.services.proving = server.call(unproven())
    try:
        assert nobody.get("/readyz").status_code == 503
        assert nobody.get("/healthz").status_code == 200
        assert "dayfly_proof_green_age_seconds{" not in nobody.get("/metrics").text
    finally:
        server.services.proving = None
    assert nobody.get("/readyz").status_code == 200


def test_a_server_that_makes_none_says_so(server: House) -> None:
    assert server.client("t", "read").get("/v1/proofs").json() == {"proofs": [], "required": False}
    operator = server.client("ops", "proofs")
    for answer in (operator.post("/v1/proofs"), operator.get("/v1/proofs/0")):
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "this server makes no proofs"
