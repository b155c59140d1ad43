"""``dayfly serve`` and ``dayfly keys`` as a person uses them: two processes, one state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import httpx
import pytest

from dayfly.server import Configuration, Keys, Places
from tests.cli.leftovers import leftovers
from tests.forks import ready
from tests.machine import furnished_directory, image
from tests.server.house import TINY

DAYFLY = [sys.executable, "-m", "dayfly"]


@contextmanager
def an_environment() -> Iterator[dict[str, str]]:
    """With a data directory of its own: this user's runsc and images, no key, and no sandbox left at the end."""
    image("tiny")
    with furnished_directory() as data:
        yield {**os.environ, "DAYFLY_DATA": str(data)}
        assert leftovers(data) == []


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    with an_environment() as made:
        yield made


@contextmanager
def serving(
    environment: dict[str, str], *arguments: str, errors: IO[str] | int = subprocess.PIPE, within: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that listens, and its URL. Its log goes to ``errors``; ``within`` is a command that starts the server. It makes no proofs
    unless it is told to."""
    if "--prove" not in arguments:
        arguments = ("--no-prove", *arguments)
    process = subprocess.Popen(
        [*within, *DAYFLY, "serve", "--port", "0", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
    )  # fmt: skip
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith("listening on "), process.stderr.read() if process.stderr else ""
        yield process, line.removeprefix("listening on ").strip()
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def stopping_soon(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A server that lets requests end for a second only, and a client of it."""
    file = Path(environment["DAYFLY_DATA"]) / "server.toml"
    file.write_text("drain_seconds = 1\n")
    key = new_key(environment)
    with (
        serving(environment, "--config", str(file)) as (process, url),
        httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client,
    ):
        yield process, client


def dayfly(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DAYFLY, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def here(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, where it is not about the process: it need not load anything."""
    return subprocess.run(
        [*ready(), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def new_key(environment: dict[str, str], tenant: str = "team") -> str:
    """Made here: ``keys create``, which the first test is about, takes a process."""
    with closing(Keys(Places.of(Configuration(data=Path(environment["DAYFLY_DATA"]))).state)) as keys:
        return keys.create(tenant, "test", ("run",))[1]


def with_key(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key.strip()}"}


def test_a_person_makes_a_key_uses_it_revokes_it_and_stops_the_server(environment: dict[str, str]) -> None:
    with serving(environment) as (process, url):
        key = dayfly(environment, "keys", "create", "team", "--name", "laptop").stdout
        assert httpx.get(f"{url}/readyz").status_code == 200
        with httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client:
            made = client.post("/v1/sandboxes", json={"policy": TINY}).json()
            run = client.post(f"/v1/sandboxes/{made['id']}/executions", json={"code": "print(1)"})
            assert run.json()["stdout"] == "1\n"
            (listed,) = json.loads(dayfly(environment, "keys", "list", "--json").stdout)
            assert (listed["tenant"], listed["name"], "digest" in listed) == ("team", "laptop", False)
            assert dayfly(environment, "keys", "revoke", listed["id"]).returncode == 0
            assert client.get("/v1/usage").status_code == 401
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "dayfly keys create" in errors, "the first start says how to make a key"
    assert key.strip().split("_")[2] not in errors
    assert made["id"] not in errors
    assert "laptop" in dayfly(environment, "keys", "list").stdout


def test_a_request_under_way_may_end_after_sigterm(environment: dict[str, str]) -> None:
    key = new_key(environment)
    with (
        serving(environment) as (process, url),
        httpx.Client(base_url=url, headers=with_key(key), timeout=60) as client,
    ):
        path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}/executions"
        body = {"code": "print('begun', flush=True)\nimport time; time.sleep(1)\nprint('ended')"}
        with client.stream("POST", path, json=body, headers={"accept": "application/x-ndjson"}) as answer:
            lines = answer.iter_lines()
            while "begun" not in next(lines):
                pass
            process.send_signal(signal.SIGTERM)
            rest = "\n".join(lines)
        assert '"ended\\n"' in rest
        assert '"outcome":"ok"' in rest
        assert process.wait(60) == 0


def test_two_servers_do_not_share_a_state(environment: dict[str, str]) -> None:
    with serving(environment):
        second = dayfly(environment, "serve", "--port", "0")
        assert second.returncode != 0
        assert "another dayfly" in second.stderr


def test_without_a_key_only_loopback_is_served(environment: dict[str, str]) -> None:
    refused = dayfly(environment, "serve", "--host", "0.0.0.0", "--port", "0")
    assert (refused.returncode, "unencrypted" in refused.stderr) == (2, True)
    refused = dayfly(environment, "serve", "--host", "0.0.0.0", "--port", "0", "--behind-proxy")
    assert refused.returncode != 0
    assert "keys create" in refused.stderr


def test_keys_that_are_no_keys_are_refused(environment: dict[str, str]) -> None:
    assert here(environment, "keys", "create", "team", "--scope", "root").returncode == 2
    assert here(environment, "keys", "revoke", "none").returncode == 2
    assert here(environment, "keys", "list").stdout == ""


def test_it_speaks_tls_with_the_files_of_its_configuration(environment: dict[str, str], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    assert openssl, "openssl makes the certificate of this test"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    file = tmp_path / "server.toml"
    file.write_text(f"tls = {{certificate = '{tmp_path}/cert.pem', key = '{tmp_path}/key.pem'}}\n")
    with serving(environment, "--config", str(file)) as (_, url):
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        assert httpx.get(f"{url}/healthz", verify=trust).status_code == 200
    file.write_text("tls = {certificate = '/none', key = '/none'}\n")
    broken = dayfly(environment, "serve", "--port", "0", "--config", str(file))
    assert broken.returncode == 4
    assert "TLS" in broken.stderr
