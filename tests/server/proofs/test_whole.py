"""A server that proves itself: `dayfly serve` whole, with the probes that there are."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from dayfly.journal import SERVER, Reader, Signer, audit
from dayfly.prove import Proof, chosen
from dayfly.server import Configuration, Keys, Places
from dayfly.server.proven import PROOF_MADE
from tests.cli.leftovers import leftovers
from tests.server.test_serve import dayfly, environment, serving, with_key

pytestmark = pytest.mark.gvisor

__all__ = ["environment"]

NEEDED = 'require_proof = true\n[templates.of-another-image.policy]\nimage = "nowhere"\n'
"""A template of which there cannot be a proof."""


@pytest.fixture
def places(environment: dict[str, str]) -> Places:
    return Places.of(Configuration(data=Path(environment["DAYFLY_DATA"])))


@pytest.fixture
def client(places: Places) -> Iterator[httpx.Client]:
    with closing(Keys(places.state)) as keys:
        key = keys.create("ops", "test", ("run", "proofs"))[1]
    with httpx.Client(headers=with_key(key), timeout=60, trust_env=False) as made:
        yield made


def until_proven(process: subprocess.Popen[str], count: int) -> None:
    """So many proofs have been made, by what the server's log says."""
    assert process.stderr is not None
    lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
    for _ in range(count):
        next(line for line in lines if line["event"] == "proof")


@pytest.mark.timeout(600)
def test_a_server_gives_out_what_is_proven_and_the_quick_set_is_green_here(
    environment: dict[str, str], places: Places, client: httpx.Client, tmp_path: Path
) -> None:
    config = tmp_path / "server.toml"
    config.write_text(NEEDED)
    with serving(environment, "--prove", "--config", str(config)) as (process, url):
        refused = client.post(f"{url}/v1/sandboxes", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_proven")
        assert int(refused.headers["retry-after"]) > 0
        assert client.get(f"{url}/readyz").status_code == 503
        until_proven(process, 2)
        own, other = client.get(f"{url}/v1/proofs").json()["proofs"]
        assert (own["template"], own["standing"]) == (None, "green"), _red(client, url, own)
        assert (other["template"], other["standing"]) == ("of-another-image", "red")
        assert client.get(f"{url}/readyz").status_code == 200
        assert client.post(f"{url}/v1/sandboxes", json={}).status_code == 201
        refused = client.post(f"{url}/v1/sandboxes", json={"template": "of-another-image"})
        assert (refused.status_code, refused.json()["error"]["retryable"]) == (503, False)
        report = client.get(f"{url}/v1/proofs/{own['id']}").content
    _check(Proof.model_validate_json(report))
    (entry,) = [row for row in Reader(places.journal).entries(SERVER, kinds=[PROOF_MADE]) if json.loads(row.entry.facts)["green"]]  # fmt: skip
    assert json.loads(entry.entry.facts)["proof"] == own["id"]
    assert [one.data for one in Reader(places.journal).contents(entry.id)] == [report]
    assert audit(places.journal, Signer.existing(places.journal_key).verifier) == []


def _check(proof: Proof) -> None:
    assert [(row.id, row.why) for row in proof.red] == []
    assert proof.red_conditions == ()
    assert proof.green
    assert sorted(row.id for row in proof.rows) == sorted(probe.id for probe in chosen(quick=True))
    assert [proof.answer(number)[0] for number in (1, 2, 3, 4)] == ["no"] * 4
    assert {one.name for one in proof.limits} >= {"memory", "disk", "cpus", "processes"}


def _red(client: httpx.Client, url: str, one: dict[str, object]) -> object:
    """Why, for whoever reads of the failure."""
    answer = client.get(f"{url}/v1/proofs/{one['id']}")
    return [(row["id"], row["why"]) for row in answer.json().get("rows", []) if not row["green"]] or answer.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_proof_that_is_under_way_ends_with_the_server(
    environment: dict[str, str], number: signal.Signals, places: Places
) -> None:
    data = Path(environment["DAYFLY_DATA"])
    with serving(environment, "--prove") as (process, _):
        _until(lambda: any((data / "cells").glob("*")))
        process.send_signal(number)
        process.wait(30)
        _until(lambda: leftovers_of_processes(data) == [])
    if number is signal.SIGKILL:
        dayfly(environment, "run", "--image", "tiny", "-c", "1")  # clears away what it has left
    assert leftovers(data) == []


def leftovers_of_processes(data: Path) -> list[str]:
    return [one for one in leftovers(data) if not one.startswith(str(data))]


def _until(true: Callable[[], bool]) -> None:
    latest = time.monotonic() + 30
    while not true():
        assert time.monotonic() < latest
        time.sleep(0.05)


def test_a_running_server_has_the_journal_to_itself(environment: dict[str, str]) -> None:
    with serving(environment):
        done = dayfly(environment, "prove", "--property", "output", "--image", "python", "--record")
    assert done.returncode == 4
    assert "another dayfly writes the journal" in done.stderr


def test_a_proof_that_nobody_has_asked_a_server_for_is_signed_into_its_journal_too(
    environment: dict[str, str], places: Places
) -> None:
    done = dayfly(environment, "prove", "--property", "output", "--image", "python", "--record", "--json")
    assert done.returncode == 0, done.stderr
    (entry,) = Reader(places.journal).entries(SERVER)
    facts = json.loads(entry.entry.facts)
    assert (entry.entry.kind, facts["green"], facts["template"]) == (PROOF_MADE, True, None)
    assert facts["stands_on"]["policy"] == Proof.model_validate_json(done.stdout).policy_digest
    (report,) = Reader(places.journal).contents(entry.id)
    assert Proof.model_validate_json(report.data) == Proof.model_validate_json(done.stdout)
    assert audit(places.journal, Signer.existing(places.journal_key).verifier) == []
