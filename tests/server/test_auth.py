"""Who may do what over HTTP, and what those learn who may not."""

from __future__ import annotations

import re

import httpx
import pytest

from dayfly.journal import Head, Verifier
from dayfly.server.failures import BURST
from dayfly.server.guard import OPEN
from tests.server.house import TINY, House


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_without_a_valid_key_nothing_is_answered(server: House, room: str) -> None:
    good = server.key("t", "read")
    headers = [None, "", "Bearer", "Bearer x", f"Basic {good}", f"Bearer {good}x", good]
    for header in headers:
        answer = httpx.get(server.url + room, headers={} if header is None else {"authorization": header})
        assert code_of(answer) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert httpx.get(server.url + room, headers={"authorization": f"Bearer {good}"}).status_code == 200
    assert server.entries("authentication.failed")


@pytest.mark.parametrize("path", ["/v1/sandboxes", "/v1/usage", "/v1/templates", "/v1/keys"])
def test_every_path_wants_a_key(server: House, path: str) -> None:
    assert server.with_secret(None).get(path).status_code == 401
    assert server.client("t", "admin").get(path).status_code == 200


PARAMETER = re.compile(r"\{[^}]+\}")
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
PORT = f"/v1/sandboxes/{'0' * 32}/ports/80"


def test_no_route_answers_without_a_key(server: House, client: httpx.Client) -> None:
    """Whatever the document lists, and the one that it cannot."""
    nobody = server.with_secret(None)
    routes = [
        (method.upper(), PARAMETER.sub("0", path))
        for path, operations in client.get("/v1/openapi.json").json()["paths"].items()
        for method in operations
        if path not in OPEN
    ]
    assert len(routes) > 30
    for method, path in routes:
        assert code_of(nobody.request(method, path, json={})) == (401, "unauthenticated"), path
        server.services.failures._forgiven_at.clear()
    assert nobody.get(PORT, headers=UPGRADE).status_code == 401
    assert client.get(PORT, headers=UPGRADE).status_code == 404, "the control"
    assert client.get(PORT, headers={**UPGRADE, "origin": "https://evil.example"}).status_code == 403


def test_health_wants_no_key(server: House) -> None:
    nobody = server.with_secret(None)
    assert nobody.get("/healthz").json() == {"status": "ok"}
    assert nobody.get("/readyz").json() == {"status": "ok"}
    assert nobody.get("/v1/openapi.json").json()["info"]["title"] == "dayfly"


def test_a_scope_includes_those_before_it(server: House, room: str) -> None:
    run = {"code": "1"}
    reader, runner, admin = (server.client("t", scope) for scope in ("read", "run", "admin"))
    assert code_of(reader.post("/v1/sandboxes", json={})) == (403, "not_allowed")
    assert code_of(reader.post(f"{room}/executions", json=run)) == (403, "not_allowed")
    assert code_of(reader.delete(room)) == (403, "not_allowed")
    assert code_of(runner.get("/v1/keys")) == (403, "not_allowed")
    for one in (reader, runner, admin):
        assert one.get(room).status_code == 200
    for one in (runner, admin):
        assert one.post(f"{room}/executions", json=run).json()["outcome"] == "ok"


def test_another_tenants_sandbox_cannot_be_told_from_none(server: House, room: str) -> None:
    other = server.client("nobody", "admin")
    absent = "/v1/sandboxes/" + "0" * 32
    calls = [("GET", ""), ("DELETE", ""), ("GET", "/explain"), ("GET", "/usage"), ("GET", "/contexts")]
    bodies = {
        "/executions": {"code": "1"}, "/extend": {"seconds": 1}, "/token": {"seconds": 1}, "/environment": {"env": {}},
        "/quarantine": {"reason": "x"},
    }  # fmt: skip
    for method, path in [*calls, *(("POST", path) for path in bodies)]:
        theirs, none = (other.request(method, base + path, json=bodies.get(path)) for base in (room, absent))
        assert code_of(theirs) == (404, "no_such_sandbox"), path
        assert theirs.text.replace(room[-32:], "") == none.text.replace(absent[-32:], "")
        assert theirs.headers.keys() == none.headers.keys()
    assert other.get("/v1/sandboxes").json() == {"sandboxes": []}
    assert server.client("t", "read").get(room).status_code == 200


def test_a_token_uses_its_sandbox_and_does_nothing_else(server: House, client: httpx.Client, room: str) -> None:
    made = client.post(f"{room}/token", json={"seconds": 60}).json()
    token = server.with_secret(made["token"])
    assert token.post(f"{room}/executions", json={"code": "print(1)"}).json()["stdout"] == "1\n"
    assert token.get(room).status_code == 200
    another = client.post("/v1/sandboxes", json={"policy": TINY}).json()["id"]
    assert code_of(token.get(f"/v1/sandboxes/{another}")) == (404, "no_such_sandbox")
    client.delete(f"/v1/sandboxes/{another}")
    refused = [
        token.delete(room), token.post(f"{room}/quarantine", json={"reason": "x"}), token.get("/v1/sandboxes"),
        token.post(f"{room}/token", json={"seconds": 600}), token.post(f"{room}/extend", json={"seconds": 60}),
        token.post("/v1/sandboxes", json={}), token.post("/v1/conversations/c", json={}), token.get("/v1/usage"),
        token.get("/v1/keys"),
    ]  # fmt: skip
    assert {code_of(one) for one in refused} == {(403, "not_allowed")}
    assert client.get(room).json()["state"] == "ready"
    server.wall[0] += 61
    assert token.get(room).status_code == 401


def test_a_tenant_makes_lists_and_revokes_its_own_keys(server: House) -> None:
    admin, stranger = server.client("keyed", "admin"), server.client("other", "admin")
    made = admin.post("/v1/keys", json={"name": "ci", "scopes": ["run"], "expires_in": 3600})
    assert made.status_code == 201
    theirs = server.with_secret(made.json()["key"])
    assert theirs.get("/v1/sandboxes").status_code == 200
    listed = admin.get("/v1/keys")
    assert made.json()["key"].split("_")[2] not in listed.text
    assert made.json()["id"] in [key["id"] for key in listed.json()["keys"]]
    assert made.json()["id"] not in stranger.get("/v1/keys").text
    path = f"/v1/keys/{made.json()['id']}"
    assert code_of(stranger.delete(path)) == (404, "no_such_key")
    assert theirs.get("/v1/sandboxes").status_code == 200
    assert admin.delete(path).json()["revoked"] > 0
    assert theirs.get("/v1/sandboxes").status_code == 401, "at once"
    assert {entry.tenant for entry in server.entries("key.created")} >= {"keyed"}


def test_wrong_keys_are_limited_in_rate_and_right_ones_pass(server: House, client: httpx.Client) -> None:
    nobody = server.with_secret("dfk_wrong")
    answers = [nobody.get("/v1/usage") for _ in range(BURST + 1)]
    assert code_of(answers[-1]) == (429, "too_many_failures")
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert client.get("/v1/usage").status_code == 200
    server.services.failures._forgiven_at.clear()


def test_a_tenant_reads_its_own_part_of_the_journal(server: House, client: httpx.Client, sandbox: str) -> None:
    client.post(f"{sandbox}/executions", json={"code": "print('journalled')"})
    chain, admin = sandbox[-32:], server.client("t", "admin")
    server.reader()  # waits until it is written
    page = admin.get("/v1/journal", params={"chain": chain}).json()
    kinds = [entry["kind"] for entry in page["entries"]]
    assert [kind for kind in kinds if kind.startswith("execution")] == ["execution.started", "execution.ended"]
    assert [entry["number"] for entry in page["entries"]] == list(range(1, len(kinds) + 1))
    paged, after = [], 0
    while entries := (one := admin.get("/v1/journal", params={"chain": chain, "after": after, "limit": 1}).json())[
        "entries"
    ]:
        paged, after = paged + entries, one["next"]
    assert paged == page["entries"]
    told = admin.get("/v1/journal/heads").json()
    (head,) = [one for one in told["heads"] if one["chain"] == chain]
    signed = Head(chain, head["number"], bytes.fromhex(head["hash"]))
    assert Verifier(bytes.fromhex(told["public_key"])).accepts(signed, bytes.fromhex(head["signature"]))
    assert (head["number"], head["hash"]) == (len(kinds), page["entries"][-1]["hash"])
    stranger = server.client("u", "admin")
    assert stranger.get("/v1/journal", params={"chain": chain}).json()["entries"] == []
    assert chain not in stranger.get("/v1/journal/heads").text
    assert code_of(client.get("/v1/journal")) == (403, "not_allowed")
