"""Sandboxes over HTTP: made once, found again, changed and ended."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from dayfly.policy import parse_policy
from tests.machine import gvisor_with, short_directory
from tests.server.house import TINY, House, house


def test_a_sandbox_is_described(client: httpx.Client, sandbox: str) -> None:
    one = client.get(sandbox).json()
    assert set(one) == {
        "id", "state", "end_reason", "end_detail", "conversation", "template", "created", "expires", "policy", "limits",
        "languages", "unsaved",
    }  # fmt: skip
    assert (one["state"], one["end_reason"], one["languages"]) == ("ready", None, ["python", "bash"])
    assert one["id"].isalnum()
    assert one["id"] == one["id"].lower()
    assert len(one["id"]) * 4 >= 128
    assert parse_policy(one["policy"]) == parse_policy(TINY)
    assert 0 < one["expires"] - one["created"] <= 1801
    assert {"name", "value", "enforcement", "how"} == set(one["limits"][0])
    assert one["id"] in [each["id"] for each in client.get("/v1/sandboxes").json()["sandboxes"]]
    assert client.get(f"{sandbox}/explain").json()
    assert client.get(f"{sandbox}/usage").json()["cpu_seconds"] > 0


def test_it_ends_once_and_says_why_ever_after(client: httpx.Client) -> None:
    path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
    for _ in range(2):
        ended = client.delete(path)
        assert (ended.status_code, ended.json()["state"], ended.json()["end_reason"]) == (200, "ended", "stopped")
    assert client.get(path).json()["end_reason"] == "stopped"
    calls = [
        client.post(f"{path}/executions", json={"code": "1"}), client.get(f"{path}/contexts"), client.get(f"{path}/usage"),
        client.post(f"{path}/processes", json={"argv": ["true"]}), client.get(f"{path}/files?path=x"),
        client.post(f"{path}/extend", json={"seconds": 1}), client.post(f"{path}/environment", json={"env": {"A": "1"}}),
        client.post(f"{path}/token", json={"seconds": 1}), client.get(f"{path}/tree?path=."),
    ]  # fmt: skip
    for call in calls:
        told = call.json()["error"]
        assert (call.status_code, told["code"], told["end_reason"]) == (410, "sandbox_ended", "stopped")


def test_a_request_that_is_made_twice_is_done_once(client: httpx.Client) -> None:
    body, key = {"policy": TINY}, {"idempotency-key": "order 1"}
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: client.post("/v1/sandboxes", json=body, headers=key), range(3)))
    assert {one.status_code for one in made} == {201}
    assert len({one.json()["id"] for one in made}) == 1
    other = client.post("/v1/sandboxes", json={}, headers=key)
    assert other.status_code == 400, "the same key for another request"
    client.delete(f"/v1/sandboxes/{made[0].json()['id']}")


def test_what_a_caller_asked_for_who_is_gone_is_not_left_behind(server: House) -> None:
    body = json.dumps({"policy": TINY}).encode()
    head = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key('gone')}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        client = server.client("gone")
        while client.get("/v1/usage").json()["sandboxes"] == 0:
            pass
    while client.get("/v1/usage").json()["sandboxes"]:
        pass
    assert [one["state"] for one in client.get("/v1/sandboxes").json()["sandboxes"]] in ([], ["ended"])


def test_a_conversation_has_one_sandbox_and_another_tenants_has_another(server: House, client: httpx.Client) -> None:
    path = "/v1/conversations/user%2042%2Fchat%20ü"
    first, again = (client.post(path, json={"policy": TINY}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["conversation"] == "user 42/chat ü"
    other = server.client("u").post(path, json={"policy": TINY})
    assert other.status_code == 201
    assert other.json()["id"] != first.json()["id"]
    for tenant, one in (("t", first), ("u", other)):
        server.client(tenant).delete(f"/v1/sandboxes/{one.json()['id']}")
    assert client.post(path, json={"policy": TINY}).status_code == 201, "after its end, a new one"
    found = client.post(path, json={"policy": TINY}).json()["id"]
    client.delete(f"/v1/sandboxes/{found}")


def test_a_template_is_a_policy_by_name(client: httpx.Client) -> None:
    made = client.post("/v1/sandboxes", json={"template": "spare", "env": {"WHO": "me"}})
    assert (made.status_code, made.json()["template"]) == (201, "spare")
    path = f"/v1/sandboxes/{made.json()['id']}"
    code = {"code": "import os; print(os.environ['WHO'])"}
    assert client.post(f"{path}/executions", json=code).json()["stdout"] == "me\n"
    client.delete(path)
    assert client.post("/v1/sandboxes", json={"template": "none"}).json()["error"]["code"] == "no_such_template"
    assert client.post("/v1/sandboxes", json={"template": "spare", "policy": {}}).status_code == 400


def test_a_policy_over_http_cannot_look_at_the_servers_files(client: httpx.Client, tmp_path: Path) -> None:
    told = []
    for source in (str(tmp_path), str(tmp_path / "absent"), "/etc/shadow"):
        policy = {**TINY, "mounts": [{"source": source, "target": "/data"}]}
        answer = client.post("/v1/sandboxes", json={"policy": policy})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "policy_error")
        told.append(answer.text)
    assert len(set(told)) == 1, "whether it exists must not show"


@pytest.mark.parametrize("rule", [{"host": "api.example.com"}, {"host": "db", "private": "10.0.0.0/8"}])
def test_a_policy_over_http_leads_nowhere_unless_the_operator_says_so(
    client: httpx.Client, room: str, rule: dict[str, str]
) -> None:
    for answer in (
        client.post("/v1/sandboxes", json={"policy": {**TINY, "network": [rule]}}),
        client.post("/v1/conversations/far", json={"policy": {**TINY, "network": [rule]}}),
        client.put(f"{room}/network", json={"network": [rule]}),
    ):
        told = answer.json()["error"]
        assert (answer.status_code, told["code"]) == (400, "policy_error")
        assert "over HTTP no policy has a network here" in told["message"]
        assert "operator" in told["remedy"]
    assert client.put(f"{room}/network", json={"network": []}).json()["policy"]["network"] == "none"


@pytest.mark.parametrize(
    "network", [None, "all", 1, {}, [1], [{}], [{"host": "*"}], [{"host": "127.0.0.1"}], [{"host": "com"}]]
)
def test_what_is_no_network_is_the_callers_error(client: httpx.Client, room: str, network: object) -> None:
    told = client.put(f"{room}/network", json={"network": network})
    assert told.status_code == 400
    assert told.json()["error"]["code"] in ("input_error", "policy_error")


def test_where_a_sandbox_may_lead_to_is_for_its_owner_to_say(server: House, client: httpx.Client, room: str) -> None:
    token = client.post(f"{room}/token", json={"seconds": 60}).json()["token"]
    asked = [
        (server.with_secret(token), 403, "not_allowed"),
        (server.client("t", "read"), 403, "not_allowed"),
        (server.client("u"), 404, "no_such_sandbox"),
    ]
    for other, status, code in asked:
        answer = other.put(f"{room}/network", json={"network": "none"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("limits", "named"), [({"output": "4GiB"}, "output"), ({"disk": "100GiB"}, "disk"), ({"cpus": 1000}, "cpus")]
)
def test_a_policy_over_http_cannot_ask_for_more_than_the_operator_allows(
    client: httpx.Client, limits: dict[str, object], named: str
) -> None:
    error = client.post("/v1/sandboxes", json={"policy": {**TINY, "limits": limits}}).json()["error"]
    assert (error["code"], f"limits.{named} may be" in error["message"]) == ("policy_error", True)
    policy = {**TINY, "accept_unenforced": ["memory"]}
    assert client.post("/v1/sandboxes", json={"policy": policy}).json()["error"]["code"] == "policy_error"


@pytest.mark.parametrize(
    "policy", [{"imag": "x"}, {"limits": {"memory": "1 banana"}}, {"boundary": "fake"}, {"image": "../../etc"}]
)
def test_a_wrong_policy_is_the_callers_error_with_a_remedy(client: httpx.Client, policy: dict[str, object]) -> None:
    answer = client.post("/v1/sandboxes", json={"policy": policy})
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["remedy"]


def test_a_tenants_cap_is_told_with_a_time_to_come_back(server: House) -> None:
    poor = server.client("poor")
    path = f"/v1/sandboxes/{poor.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
    refused = poor.post("/v1/sandboxes", json={"policy": TINY})
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "admission_refused")
    assert int(refused.headers["retry-after"]) == refused.json()["error"]["retry_after"] > 0
    usage = poor.get("/v1/usage").json()
    assert (usage["sandboxes"], usage["allowed"]["sandboxes"]) == (1, 1)
    poor.delete(path)
    assert poor.get("/v1/usage").json()["sandboxes"] == 0


def test_it_is_extended_within_its_policys_ceiling(client: httpx.Client, sandbox: str) -> None:
    before = client.get(sandbox).json()["expires"]
    after = client.post(f"{sandbox}/extend", json={"seconds": 7200}).json()["expires"]
    assert after - before > 5000
    assert client.post(f"{sandbox}/extend", json={"seconds": 10 * 86400}).json()["error"]["code"] == "input_error"


@pytest.mark.parametrize("seconds", ["60", True, None])
def test_what_is_no_number_is_not_taken_for_one(client: httpx.Client, room: str, seconds: object) -> None:
    assert client.post(f"{room}/extend", json={"seconds": seconds}).json()["error"]["code"] == "input_error"
    assert client.post(f"{room}/extend", json={"seconds": 60}).status_code == 200


def test_what_is_quarantined_is_gone_and_the_reason_kept(client: httpx.Client) -> None:
    path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
    gone = client.post(f"{path}/quarantine", json={"reason": "it asked for the admin's password"}).json()
    assert (gone["state"], gone["end_reason"]) == ("ended", "quarantined")
    assert "password" in client.get(path).json()["end_detail"]


def test_variables_are_set_for_what_starts_from_now_on(client: httpx.Client, room: str) -> None:
    assert client.post(f"{room}/environment", json={"env": {"LATER": "yes"}}).status_code == 200
    run = {"language": "bash", "code": "echo $LATER"}
    assert client.post(f"{room}/executions", json=run).json()["stdout"] == "yes\n"


def test_numbers_for_prometheus_have_no_ids_in_them(server: House, client: httpx.Client, sandbox: str) -> None:
    client.post(f"{sandbox}/executions", json={"code": "1/0"})
    client.delete(f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}")
    text = client.get("/metrics").text
    assert 'dayfly_sandboxes{state="ready",template=""}' in text
    assert 'dayfly_executions_total{outcome="error"}' in text
    assert 'dayfly_ends_total{reason="stopped"}' in text
    assert sandbox[-32:] not in text
    assert server.with_secret(None).get("/metrics").status_code == 200, "from loopback"


def test_the_whole_servers_numbers_are_no_tenants_to_read() -> None:
    with (
        gvisor_with("") as boundary,
        short_directory() as directory,
        house(boundary, directory, behind_proxy=True) as behind,
    ):
        asked = [behind.with_secret(secret).get("/metrics").status_code for secret in (None, behind.key("t", "admin"))]
        watcher = behind.client("operator", "metrics")
        assert (asked, watcher.get("/metrics").status_code) == ([401, 403], 200)
        assert watcher.get("/v1/sandboxes").status_code == 403, "and it may do nothing else"
