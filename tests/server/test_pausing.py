"""Sandboxes that are stopped with their memory, over HTTP, by real servers that come and go."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.server.house import TINY, House
from tests.server.test_serve import environment, here, new_key, serving, stopping_soon, with_key

__all__ = ["environment"]


def run(client: httpx.Client, path: str, code: str) -> str:
    answer = client.post(f"{path}/executions", json={"code": code})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["stdout"])


def test_it_is_paused_and_resumed_by_its_owner_and_by_nobody_else(
    server: House, client: httpx.Client, sandbox: str
) -> None:
    run(client, sandbox, "number = 41")
    paused = client.post(f"{sandbox}/pause", json={"seconds": 1000}).json()
    assert (paused["state"], paused["end_reason"]) == ("paused", None)
    assert paused["languages"] == ["python", "bash"]
    assert client.get(sandbox).json() == paused
    assert client.post(f"{sandbox}/pause").json() == paused, "once is enough"
    for call in (
        client.post(f"{sandbox}/executions", json={"code": "1"}),
        client.get(f"{sandbox}/usage"),
        client.post(f"{sandbox}/extend", json={"seconds": 1}),
        client.post(f"{sandbox}/fork"),
    ):
        told = call.json()["error"]
        assert (call.status_code, told["code"], told["end_reason"]) == (409, "sandbox_ended", "paused")
        assert told["remedy"] == "resume it"
    assert client.get("/v1/usage").json()["paused_bytes"] > 1_000_000
    other, reader = server.client("other"), server.client("t", "read")
    for change in ("pause", "resume", "fork"):
        assert other.post(f"{sandbox}/{change}").status_code == 404
        assert reader.post(f"{sandbox}/{change}").status_code == 403
    for _ in range(2):
        assert client.post(f"{sandbox}/resume").json()["state"] == "ready"
    assert run(client, sandbox, "print(number + 1)") == "42\n"
    assert client.get("/v1/usage").json()["paused_bytes"] == 0


def test_a_token_may_use_a_sandbox_and_not_change_what_it_is(server: House, client: httpx.Client, room: str) -> None:
    token = server.with_secret(client.post(f"{room}/token", json={"seconds": 60}).json()["token"])
    for change in ("pause", "resume", "fork"):
        assert token.post(f"{room}/{change}").status_code == 403
    assert run(token, room, "print(1)") == "1\n"


@pytest.mark.parametrize("body", [{"seconds": 0}, {"seconds": 15 * 86400}, {"seconds": "x"}, {"more": 1}, []])
def test_a_pause_has_bounds(client: httpx.Client, room: str, body: object) -> None:
    assert client.post(f"{room}/pause", json=body).status_code == 400
    assert client.get(room).json()["state"] == "ready"


def test_copies_are_sandboxes_of_their_own(client: httpx.Client, sandbox: str) -> None:
    run(client, sandbox, "import random, uuid; random.seed(7); number = 41")
    answer = client.post(f"{sandbox}/fork", json={"count": 2})
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert "python: random" in told["kept"], "it says what goes on alike"
    paths = [sandbox, *(f"/v1/sandboxes/{one['id']}" for one in told["sandboxes"])]
    said = [run(client, path, "print(number, random.random(), uuid.uuid4())").split() for path in paths]
    assert {one[0] for one in said} == {"41"}
    assert len({one[1] for one in said}) == 1, "the seed was the user's own"
    assert len({one[2] for one in said}) == 3
    for path in paths[1:]:
        assert client.delete(path).json()["end_reason"] == "stopped"
    for count in (0, 17):
        assert client.post(f"{sandbox}/fork", json={"count": count}).status_code == 400


def test_what_lies_on_the_disk_tells_nothing(server: House, client: httpx.Client, sandbox: str) -> None:
    secret = "the password is " + "tulip" * 5
    run(client, sandbox, f"secret = {secret!r}; open('secret', 'w').write(secret)")
    found = server.directory / "paused"
    assert client.post(f"{sandbox}/pause").status_code == 200
    (file,) = found.iterdir()
    content = file.read_bytes()
    assert secret.encode() not in content
    state = (server.directory / "server" / "state.db").read_bytes() + (
        server.directory / "server" / "state.db-wal"
    ).read_bytes()
    assert secret.encode() not in state
    client.post(f"{sandbox}/resume")
    assert not list(found.iterdir())
    assert run(client, sandbox, "print(secret)") == secret + "\n"


def test_the_same_memory_is_found_where_nothing_is_encrypted(
    server: House, client: httpx.Client, sandbox: str, tmp_path: Path
) -> None:
    """The control of the test above: so a snapshot looks before it is sealed."""
    secret = "the password is " + "tulip" * 5
    run(client, sandbox, f"secret = {secret!r}")
    (life,) = [one.life for one in server.services.tenants.registrations("t") if sandbox.endswith(one.id)]
    server.call(life.snapshot(tmp_path / "plain"))
    assert any(secret.encode() in path.read_bytes() for path in (tmp_path / "plain").iterdir())


def test_conversations_outlive_their_server(environment: dict[str, str]) -> None:
    """SIGTERM, as in an upgrade: who comes back finds what they had; whoever has no conversation does not."""
    key = new_key(environment)
    body = {"policy": TINY}
    with (
        serving(environment) as (process, url),
        httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client,
    ):
        mine = f"/v1/sandboxes/{client.post('/v1/conversations/c', json=body).json()['id']}"
        other = f"/v1/sandboxes/{client.post('/v1/sandboxes', json=body).json()['id']}"
        run(client, mine, "number = 41")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    listed = [json.loads(line) for line in here(environment, "ps", "--json").stdout.splitlines()]
    assert [(one["chain"], one["state"]) for one in listed] == [(mine.rpartition("/")[2], "paused")]
    with serving(environment) as (_, url), httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client:
        assert client.get(mine).json()["state"] == "paused"
        assert client.get(other).status_code == 404
        found = client.post("/v1/conversations/c", json=body)
        assert (found.status_code, found.json()["id"], found.json()["state"]) == (200, mine.rpartition("/")[2], "ready")
        assert run(client, mine, "print(number + 1)") == "42\n"
        client.delete(mine)
        assert here(environment, "journal", "verify").returncode == 0
    assert not list(Path(environment["DAYFLY_DATA"], "server", "paused").iterdir())


def test_what_runs_in_a_conversation_is_stopped_so_that_it_outlives_its_server(environment: dict[str, str]) -> None:
    with stopping_soon(environment) as (process, client):
        mine = f"/v1/sandboxes/{client.post('/v1/conversations/c', json={'policy': TINY}).json()['id']}"
        endless = {"code": "number = 41\nprint('begun', flush=True)\nwhile True: pass"}
        argv = {"argv": ["sh", "-c", "echo begun; sleep 60"]}
        as_lines = {"accept": "application/x-ndjson"}
        with (
            client.stream("POST", f"{mine}/executions", json=endless, headers=as_lines) as answer,
            client.stream("POST", f"{mine}/processes", json=argv) as command,
        ):
            told, said = answer.iter_lines(), command.iter_lines()
            for lines in (told, said):
                while '"stdout"' not in next(lines):
                    pass
            process.send_signal(signal.SIGTERM)
            assert json.loads(list(told)[-1])["execution"]["outcome"] == "interrupted"
            assert json.loads(list(said)[-1])["result"]["signal"] is not None
        assert process.wait(60) == 0
    with stopping_soon(environment) as (_, client):
        assert client.post("/v1/conversations/c", json={"policy": TINY}).json()["id"] == mine.rpartition("/")[2]
        assert run(client, mine, "print(number + 1)") == "42\n"
        client.delete(mine)
