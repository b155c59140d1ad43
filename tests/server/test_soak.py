"""Many sandboxes in the life of one server: when they are gone, it is as it was before them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.server.house import TINY
from tests.server.remains import Remains
from tests.server.test_serve import environment, here, new_key, serving, with_key

__all__ = ["environment"]

GROWTH = 1.1
"""What the server's memory may be at the end, against what it was after the warm-up."""

CALM_TRIES = 50
"""Requests that the server may need until it has taken note of connections that were closed."""

BODY = {"code": "import os\nprint(sum(range(1000)))\nopen('kept', 'w').write('x' * 10_000)", "timeout": 30}


PATIENT = {**TINY, "limits": {**TINY["limits"], "lifetime_seconds": 14_400, "idle_seconds": 14_400}}


async def one_life(client: httpx.AsyncClient, number: int) -> str:
    """Made, used, and ended in one of the ways that there are."""
    made = await client.post("/v1/sandboxes", json={"policy": TINY, "env": {"NUMBER": str(number)}})
    assert made.status_code == 201, made.text
    path = f"/v1/sandboxes/{made.json()['id']}"
    done = await client.post(f"{path}/executions", json=BODY)
    assert done.json()["stdout"] == "499500\n", done.text
    assert (await client.get(f"{path}/files", params={"path": "kept"})).text == "x" * 10_000
    started = await client.post(f"{path}/processes", json={"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    assert json.loads(started.text.splitlines()[-1])["result"]["exit_code"] == 3
    await ENDS[number % len(ENDS)](client, path)
    return str(made.json()["id"])


async def deleted(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.delete(path)).status_code == 200


async def quarantined(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.post(f"{path}/quarantine", json={"reason": "soaked"})).status_code == 200


async def deleted_in_a_run(client: httpx.AsyncClient, path: str) -> None:
    running = {"code": "print('begun', flush=True)\nwhile True: pass", "timeout": 30}
    accept = {"accept": "application/x-ndjson"}
    async with client.stream("POST", f"{path}/executions", json=running, headers=accept) as answer:
        told = ""
        async for line in answer.aiter_lines():
            if "begun" in line:
                await deleted(client, path)
            told = line or told  # empty ones keep the connection alive
        assert "sandbox_ended" in told


async def left(client: httpx.AsyncClient, path: str) -> None:
    """The caller of a run goes away, and the sandbox is ended after that."""
    running = {"code": "print('begun', flush=True)\nwhile True: pass", "timeout": 30}
    accept = {"accept": "application/x-ndjson"}
    async with client.stream("POST", f"{path}/executions", json=running, headers=accept) as answer:
        async for line in answer.aiter_lines():
            if "begun" in line:
                break
    await deleted(client, path)


POOL = min(32, (os.cpu_count() or 1) + 4)
"""Threads of asyncio's pool at most (concurrent.futures.ThreadPoolExecutor)."""

ENDS = (deleted, quarantined, deleted_in_a_run, left)


async def many_lives(url: str, key: str, count: int, at_a_time: int) -> list[str]:
    numbers, ids = iter(range(count)), []

    async def worker(client: httpx.AsyncClient) -> None:
        for number in numbers:
            ids.append(await one_life(client, number))

    async with (
        httpx.AsyncClient(base_url=url, headers=with_key(key), timeout=120, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(at_a_time):
            group.create_task(worker(client))
    return ids


def settled(client: httpx.Client, look: Callable[[], Remains], most: Remains | None = None) -> Remains:
    """What the server holds when it has nothing more to do for those who are gone: it works between looks."""
    for _ in range(CALM_TRIES):
        found = look()
        if most is not None and all(count <= most.counts[name] for name, count in found.counts.items()):
            break
        assert client.get("/v1/usage").status_code == 200
    return found


@pytest.mark.parametrize(
    ("warm", "lives", "at_a_time"),
    [
        pytest.param(8, 16, 8, id="short"),
        pytest.param(500, 2000, 16, id="long", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_after_many_sandboxes_a_server_holds_what_it_held_before(
    environment: dict[str, str], warm: int, lives: int, at_a_time: int
) -> None:
    data = Path(environment["DAYFLY_DATA"])
    (data / "tmp").mkdir()
    environment["TMPDIR"] = str(data / "tmp")
    key = new_key(environment)
    with (
        (data / "log").open("w") as log,
        serving(environment, errors=log) as (process, url),
        httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client,
    ):
        resident = client.post("/v1/sandboxes", json={"policy": PATIENT}).json()["id"]  # lives through all of it
        path = f"/v1/sandboxes/{resident}"
        client.post(f"{path}/executions", json={"code": "kept = 42"})
        ids = asyncio.run(many_lives(url, key, warm, at_a_time))
        before = settled(client, lambda: Remains.of(process.pid, data, [resident, *ids]))
        ids += asyncio.run(many_lives(url, key, lives, at_a_time))
        after = settled(client, lambda: Remains.of(process.pid, data, [resident, *ids]), before)
        print(f"{lives} lives: {before} -> {after}")
        assert {name: count for name, count in after.counts.items() if count > before.counts[name]} == {}
        assert after.threads <= before.threads + POOL
        assert after.resident < before.resident * GROWTH
        asked = client.post(f"{path}/executions", json={"code": "kept"}).json()
        assert asked["results"][0]["data"]["text/plain"] == "42"
        assert client.delete(path).status_code == 200
    assert here(environment, "ps").stdout == ""
    assert here(environment, "journal", "verify").returncode == 0
