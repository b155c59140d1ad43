"""A server that is killed at the worst moment: the next one clears everything away, and the journal says so."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from dayfly.journal import ENDED, Reader, Signer, audit
from dayfly.server import Configuration, Places
from tests.cli.leftovers import leftovers
from tests.server.house import TINY
from tests.server.test_serve import an_environment, new_key, serving, with_key

Act = Callable[[httpx.Client, str], object]


def executing(client: httpx.Client, sandbox: str) -> None:
    client.post(f"/v1/sandboxes/{sandbox}/executions", json={"code": "while True: print('x' * 99)", "timeout": 60})


def uploading(client: httpx.Client, sandbox: str) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield bytes(65536)

    client.put(f"/v1/sandboxes/{sandbox}/files", params={"path": "/tmp/big"}, content=endless())


def creating(client: httpx.Client, sandbox: str) -> None:
    while True:
        client.post("/v1/sandboxes", json={"policy": TINY})


def destroying(client: httpx.Client, sandbox: str) -> None:
    client.delete(f"/v1/sandboxes/{sandbox}")


def pausing(client: httpx.Client, sandbox: str) -> None:
    client.post(f"/v1/sandboxes/{sandbox}/pause")


def kill_while(process: subprocess.Popen[str], client: httpx.Client, sandboxes: list[str], act: Act) -> None:
    """SIGKILL the server while it is asked for this on all sandboxes."""
    begun = threading.Barrier(len(sandboxes) + 1)

    def one(sandbox: str) -> None:
        begun.wait(30)
        with suppress(httpx.HTTPError):
            act(client, sandbox)

    with ThreadPoolExecutor(len(sandboxes)) as pool:
        asked = [pool.submit(one, sandbox) for sandbox in sandboxes]
        begun.wait(30)
        with suppress(httpx.HTTPError):
            client.get("/v1/sandboxes")  # answered after some of it has begun
        process.kill()
        process.wait(30)
        for each in asked:
            each.result(60)


class Relay:
    """Servers on one data directory, one after the other: where one is killed, the next one is started and goes on."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.data = Path(environment["DAYFLY_DATA"])
        self._environment = environment
        self._key = new_key(environment)
        self._life = ExitStack()
        self.start()

    def start(self) -> None:
        self._life.close()
        self.process, url = self._life.enter_context(serving(self._environment))
        client = httpx.Client(base_url=url, headers=with_key(self._key), timeout=60)
        self.client = self._life.enter_context(client)

    def close(self) -> None:
        self._life.close()


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    with an_environment() as environment, closing(Relay(environment)) as made:
        yield made


def kill_and_start_again(relay: Relay, act: Act, count: int) -> None:
    """What the command line would say of the journal is read here: a process for each takes a second."""
    places = Places.of(Configuration(data=relay.data))
    client, journal = relay.client, Reader(places.journal)
    made = [client.post("/v1/sandboxes", json={"policy": TINY}).json()["id"] for _ in range(count)]
    while {row.entry.chain for row in journal.unended()} != set(made):  # a commit is some milliseconds behind
        client.get("/v1/usage")
    kill_while(relay.process, client, made, act)
    relay.start()
    client = relay.client
    assert leftovers(relay.data) == []
    paused = [one["id"] for one in client.get("/v1/sandboxes").json()["sandboxes"] if one["state"] == "paused"]
    assert act is pausing or not paused
    assert [one["id"] for one in client.get("/v1/sandboxes").json()["sandboxes"]] == paused, "all others have ended"
    assert {row.entry.chain for row in journal.unended()} == set(paused)
    assert len(list((relay.data / "server" / "paused").glob("*"))) == len(paused)
    for sandbox in paused:
        assert client.post(f"/v1/sandboxes/{sandbox}/resume").json()["state"] == "ready"
        assert client.delete(f"/v1/sandboxes/{sandbox}").json()["end_reason"] == "stopped"
    new = client.post("/v1/sandboxes", json={"policy": TINY})
    assert new.status_code == 201
    assert client.delete(f"/v1/sandboxes/{new.json()['id']}").json()["end_reason"] == "stopped"
    assert audit(places.journal, Signer.existing(places.journal_key).verifier) == []
    for sandbox in made:
        *_, last = journal.entries(sandbox)
        assert last.entry.kind == ENDED
        if act not in (destroying, pausing):
            assert json.loads(last.entry.facts)["reason"] == "boundary_lost"


@pytest.mark.parametrize("act", [creating, executing, uploading, pausing, destroying])
def test_after_a_sigkill_nothing_is_left_and_all_ends_are_marked(relay: Relay, act: Act) -> None:
    kill_and_start_again(relay, act, 3)


@pytest.mark.soak
@pytest.mark.parametrize("act", [creating, executing, uploading, pausing, destroying])
def test_after_a_sigkill_with_twenty_sandboxes(relay: Relay, act: Act) -> None:
    kill_and_start_again(relay, act, 20)
