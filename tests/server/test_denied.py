"""What code asked for and did not get, as HTTP tells it: described, in every form of an end, bounded, and in the journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dayfly.sandbox.denials import KEPT
from tests.machine import gvisor_with, image, short_directory
from tests.server.house import TINY, House, house, sandbox_of

ONE = "import socket\ntry: socket.getaddrinfo('other.example.com', 443)\nexcept OSError: pass"
MANY = """
import socket
for number in range(1000):
    try: socket.getaddrinfo(f'{number:060}.' + '.'.join(['x' * 60] * 3), 443)
    except OSError: pass
"""
RULES = [{"host": "api.example.com"}]

ROW = {
    "host": "other.example.com",
    "port": None,
    "code": "not_listed",
    "reason": "other.example.com is not on this sandbox's list of names",
    "remedy": "ask whoever runs this sandbox to add a rule for it, or go without",
    "claimed": True,
    "count": 1,
    "began": None,
}


@pytest.fixture(scope="module")
def open_house() -> Iterator[House]:
    """Whose tenants may name whatever is public."""
    image("tiny")
    with (
        gvisor_with("") as boundary,
        short_directory() as directory,
        house(boundary, directory, network={"names": ["*"]}) as running,
    ):
        yield running


@pytest.fixture
def client(open_house: House) -> httpx.Client:
    return open_house.client()


@pytest.fixture
def sandbox(client: httpx.Client) -> Iterator[str]:
    with sandbox_of(client, {**TINY, "network": RULES}) as path:
        yield path


def counted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A resolver may ask more than once."""
    return [{**row, "count": min(row["count"], 1)} for row in rows]


def last(answer: httpx.Response) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(answer.text.strip().splitlines()[-1])
    assert event["type"] == "end"
    return event


def test_every_form_of_an_end_has_what_was_denied(client: httpx.Client, sandbox: str) -> None:
    whole = client.post(f"{sandbox}/executions", json={"code": ONE}).json()
    assert counted(whole["denied"]) == [ROW]
    lines = {"accept": "application/x-ndjson"}
    streamed = client.post(f"{sandbox}/executions", json={"code": ONE}, headers=lines)
    assert counted(last(streamed)["execution"]["denied"]) == [ROW]
    command = client.post(f"{sandbox}/processes", json={"argv": ["python3", "-c", ONE]})
    assert counted(last(command)["result"]["denied"]) == [ROW]
    assert client.post(f"{sandbox}/executions", json={"code": "1"}).json()["denied"] == []


def test_the_document_describes_it(client: httpx.Client) -> None:
    schemas = client.get("/v1/openapi.json").json()["components"]["schemas"]
    assert set(schemas["Denial"]["properties"]) == set(ROW)
    assert schemas["Execution"]["properties"]["denied"]["items"] == {"$ref": "#/components/schemas/Denial"}


def test_who_asks_for_very_much_is_told_of_the_last_of_it(client: httpx.Client, sandbox: str) -> None:
    answer = client.post(f"{sandbox}/executions", json={"code": MANY})
    assert answer.json()["outcome"] == "ok"
    assert 0 < len(answer.json()["denied"]) <= KEPT
    assert len(answer.content) < KEPT * 4096


def test_the_journal_has_changes_and_denials(open_house: House, client: httpx.Client, sandbox: str) -> None:
    changed = client.put(f"{sandbox}/network", json={"network": [*RULES, {"host": "*.example.org"}]})
    assert [rule["host"] for rule in changed.json()["policy"]["network"]] == ["api.example.com", "*.example.org"]
    client.post(f"{sandbox}/executions", json={"code": ONE})
    client.delete(sandbox)
    chain = sandbox.rpartition("/")[2]
    told = {
        kind: [json.loads(one.facts) for one in open_house.entries(kind) if one.chain == chain]
        for kind in ("network.changed", "egress.denied")
    }
    (facts,) = told["network.changed"]
    assert facts == {
        "count": 2,
        "rules": [{"host": one, "ports": [443], "protocol": "tls"} for one in ("api.example.com", "*.example.org")],
    }
    assert {(one["host"], one["code"], one["claimed"]) for one in told["egress.denied"]} == {
        ("other.example.com", "not_listed", True)
    }


def test_numbers_for_prometheus_say_what_was_denied(client: httpx.Client, sandbox: str) -> None:
    """And how much has passed, without anybody's name."""

    def counted(text: str) -> float:
        rows = [line for line in text.splitlines() if 'code="not_listed"' in line and 'claimed="true"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in rows if line.startswith("dayfly_egress_denied_total"))

    before = counted(client.get("/metrics").text)
    client.post(f"{sandbox}/executions", json={"code": ONE})
    text = client.get("/metrics").text
    assert counted(text) >= before + 1
    assert "dayfly_egress_connections_total" in text
    assert all(f'dayfly_egress_bytes_total{{direction="{way}"}}' in text for way in ("sent", "received"))
    assert "example.com" not in text


def test_everybody_may_learn_over_http(client: httpx.Client) -> None:
    with sandbox_of(client, {**TINY, "network": "learn"}) as path:
        assert client.get(path).json()["policy"]["network"] == "learn"
        code = (
            "import socket\npeer = socket.create_connection(('other.example.com', 80))\n"
            "peer.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print(peer.recv(12))"
        )
        done = client.post(f"{path}/executions", json={"code": code}).json()
        assert done["stdout"] == "b'HTTP/1.1 403'\n", done
        assert {
            (one["host"], one["port"], one["code"], one["began"]) for one in done["denied"] if not one["claimed"]
        } == {("other.example.com", 80, "not_listed", "http")}
        assert client.put(f"{path}/network", json={"network": "none"}).json()["policy"]["network"] == "none"
        assert client.put(f"{path}/network", json={"network": "learn"}).json()["policy"]["network"] == "learn"


def test_no_rule_over_http_may_be_private_because_every_name_may_be_named(client: httpx.Client) -> None:
    rule = {"host": "mine.example.com", "private": "127.0.0.0/8"}
    answer = client.post("/v1/sandboxes", json={"policy": {**TINY, "network": [rule]}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "policy_error")


def test_a_conversation_goes_on_after_a_change(client: httpx.Client) -> None:
    asked = {"policy": {**TINY, "network": RULES}}
    first = client.post("/v1/conversations/changing", json=asked)
    path = f"/v1/sandboxes/{first.json()['id']}"
    assert client.put(f"{path}/network", json={"network": "none"}).json()["policy"]["network"] == "none"
    again = client.post("/v1/conversations/changing", json=asked)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
    assert again.json()["policy"]["network"] == "none", "it says what it may reach"
    client.delete(path)
