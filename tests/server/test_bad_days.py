"""What befalls a server from outside: full disks, held files, exchanged programs, clocks that are set, an end amid work.

Each time: a clear error as long as it lasts, nothing lost of what had happened, and work goes on when it is over.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.journal import Reader, store
from dayfly.paths import Paths, default_paths
from dayfly.runtime import find_runsc
from tests.machine import gvisor_with, image, short_directory
from tests.server.house import TINY, House, house
from tests.server.test_serve import DAYFLY, environment, here, serving, stopping_soon, with_key

__all__ = ["environment"]

NDJSON = {"accept": "application/x-ndjson"}
BUSY = "print('begun', flush=True)\nwhile True: pass"

SMALL_DISK = (
    'mount -t tmpfs -o size=24m,mode=0755 small "$1" && ln -s "$2" "$3" "$1" && shift 3'
    ' && exec setpriv --inh-caps=-all --ambient-caps=-all "$@"'
)
"""A shell's words, in a mount namespace of its own: a data directory in 24 MiB of memory, which end with the server."""

AS_USER = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
"""What lets somebody else than root mount it, in a user namespace; the server has nothing of these rights."""


def opened(client: httpx.Client, **more: Any) -> str:
    """The path of a new sandbox."""
    made = client.post("/v1/sandboxes", json={"policy": TINY, **more})
    assert made.status_code == 201, made.text
    return f"/v1/sandboxes/{made.json()['id']}"


def run(client: httpx.Client, path: str, code: str, **more: Any) -> httpx.Response:
    return client.post(f"{path}/executions", json={"code": code, **more})


def lines_of(client: httpx.Client, path: str, code: str, **more: Any) -> Iterator[dict[str, Any]]:
    with client.stream("POST", f"{path}/executions", json={"code": code, **more}, headers=NDJSON) as answer:
        for line in answer.iter_lines():
            yield json.loads(line)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def until_it_works(client: httpx.Client, path: str) -> None:
    """It goes on by itself, within a try of the journal's: every refusal until then is the one that was promised."""
    while (answer := run(client, path, "print('well')")).status_code != 200:
        assert code_of(answer) == (503, "journal_unwritable")
    assert answer.json()["stdout"] == "well\n"


def until_it_is_noticed(client: httpx.Client, path: str) -> int:
    """Runs that began before anybody knew that they cannot be written down. The next one is refused."""
    number = 0
    while (answer := run(client, path, "print('before')")).status_code == 200:
        number += 1
    assert code_of(answer) == (503, "journal_unwritable")
    assert "retry-after" in answer.headers
    return number


# --- a full disk ------------------------------------------------------------------------------------------------------


@dataclass
class Small:
    """A server on a disk of its own, and who calls it. ``there`` runs something where the server runs."""

    process: subprocess.Popen[str]
    client: httpx.Client
    disk: Path
    log: Path
    environment: dict[str, str]

    def there(self, *command: str) -> subprocess.CompletedProcess[str]:
        spaces = f"/proc/{self.process.pid}/ns"
        user = [f"--user={spaces}/user", "--preserve-credentials"] if AS_USER else []
        within = ["nsenter", *user, f"--mount={spaces}/mnt", *command]
        return subprocess.run(within, env=self.environment, capture_output=True, text=True, check=True)

    def kinds(self, path: str) -> list[str]:
        """What the journal has of a sandbox, in order."""
        shown = self.there(*DAYFLY, "journal", "show", path.rpartition("/")[2], "--json").stdout
        return [json.loads(line)["kind"] for line in shown.splitlines()]


@contextmanager
def on_a_small_disk() -> Iterator[Small]:
    image("tiny")
    shared = default_paths()
    with short_directory() as data, short_directory() as aside, (aside / "log").open("w") as log:
        environment = {**os.environ, "DAYFLY_DATA": str(data)}
        within = ["unshare", *AS_USER, "--mount", "--propagation", "private", "sh", "-c", SMALL_DISK, "sh", str(data)]
        within += [str(shared.bin), str(shared.images)]
        with (
            serving(environment, errors=log, within=within) as (process, url),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            small = Small(process, client, Path(f"/proc/{process.pid}/root{data}"), Path(log.name), environment)
            client.headers.update(with_key(small.there(*DAYFLY, "keys", "create", "team").stdout))
            yield small


def fill(disk: Path) -> Path:
    """Every byte of it."""
    assert shutil.disk_usage(disk).total < 32 << 20, "not a disk of the machine's"
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 512):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return filler


def test_a_full_disk_stops_what_would_begin_and_loses_nothing_that_has_happened() -> None:
    with on_a_small_disk() as small:
        client = small.client
        path, other = opened(client), opened(client)
        assert run(client, path, "kept = 'kept'").status_code == 200
        filler = fill(small.disk)
        before = until_it_is_noticed(client, path)
        assert code_of(client.post("/v1/sandboxes", json={"policy": TINY})) == (503, "journal_unwritable")
        assert code_of(client.post(f"{path}/token", json={"seconds": 9})) == (503, "journal_unwritable")
        assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (503, 200)
        assert client.get(path).json()["state"] == "ready"
        assert client.delete(other).json()["end_reason"] == "stopped", "what ends, ends"
        filler.unlink()
        until_it_works(client, path)
        assert "kept" in run(client, path, "print(kept)").json()["stdout"]
        assert client.delete(opened(client)).status_code == 200
        begun = ["execution.started", "execution.ended"] * (1 + before + 2)
        assert small.kinds(path) == ["sandbox.opened", *begun]
        assert small.kinds(other) == ["sandbox.opened", "sandbox.ended"]
        assert small.there(*DAYFLY, "journal", "verify").returncode == 0


def test_a_server_that_stops_while_the_disk_is_full_says_how_much_it_could_not_write() -> None:
    with on_a_small_disk() as small:
        path = opened(small.client)
        fill(small.disk)
        until_it_is_noticed(small.client, path)
        small.process.terminate()
        assert small.process.wait(60) != 0
        assert "journal entries could not be written" in small.log.read_text()


def test_a_sandbox_that_fills_the_disk_is_told_so_and_what_it_held_comes_back() -> None:
    with on_a_small_disk() as small:
        client = small.client
        path, greedy = opened(client), opened(client)
        assert run(client, path, "kept = 'kept'").status_code == 200
        done = run(client, greedy, "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))").json()
        assert (done["outcome"], done["error"]["name"]) == ("error", "OSError"), done
        assert "No space left" in done["error"]["value"]
        assert client.delete(greedy).status_code == 200
        until_it_works(client, path)
        assert "kept" in run(client, path, "print(kept)").json()["stdout"]


# --- a journal that another process holds -----------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A server of a test's own."""
    image("tiny")
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.05)
    with gvisor_with("") as boundary, short_directory() as directory, house(boundary, directory) as running:
        yield running


def test_while_another_process_holds_the_journal_nothing_begins_and_nothing_is_lost(home: House) -> None:
    client = home.client()
    path, other = opened(client), opened(client)
    assert run(client, path, "kept = 'kept'").status_code == 200
    with closing(sqlite3.connect(home.journal, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        before = until_it_is_noticed(client, path)
        assert code_of(client.put(f"{path}/files", params={"path": "x"}, content=b"x")) == (503, "journal_unwritable")
        assert code_of(client.get(f"{path}/files", params={"path": "/etc/hostname"})) == (503, "journal_unwritable")
        assert client.delete(other).json()["end_reason"] == "stopped"
        holder.execute("ROLLBACK")
    until_it_works(client, path)
    told = [one.kind for one in home.entries("execution.started") if one.chain == path.rpartition("/")[2]]
    assert len(told) == 1 + before + 1
    assert [one.chain for one in home.entries("sandbox.ended")] == [other.rpartition("/")[2]]


# --- another runsc ----------------------------------------------------------------------------------------------------


@contextmanager
def with_own_runsc(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[House, Path]]:
    """A server, and the runsc that it uses: a copy that may be exchanged."""
    image("tiny")
    with short_directory() as directory:
        runsc = directory / "runsc"
        shutil.copy2(find_runsc().path, runsc)
        monkeypatch.setenv("DAYFLY_RUNSC", str(runsc))
        boundary = GvisorBoundary(Paths(directory / "data", directory / "data" / "run"))
        (directory / "data").mkdir(mode=0o755)
        with house(boundary, directory) as running:
            yield running, runsc


def exchange(runsc: Path, content: bytes) -> None:
    """In one step, as a package manager does: the running ones keep theirs."""
    new = runsc.with_name("new")
    new.write_bytes(content)
    new.chmod(0o755)
    new.replace(runsc)


TOO_OLD = b"#!/bin/sh\necho 'runsc version 0.0~20200101.0'\n"


def test_an_exchanged_runsc_is_seen_at_the_next_sandbox_and_live_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with with_own_runsc(monkeypatch) as (home, runsc):
        client, good = home.client(), runsc.read_bytes()
        path = opened(client)
        assert run(client, path, "kept = 'kept'").status_code == 200
        runsc.unlink()
        assert code_of(client.post("/v1/sandboxes", json={"policy": TINY})) == (503, "runtime_missing")
        exchange(runsc, b"#!/bin/sh\nexit 1\n")
        assert code_of(client.post("/v1/sandboxes", json={"policy": TINY})) == (503, "boundary_unusable")
        exchange(runsc, TOO_OLD)
        assert code_of(client.post("/v1/sandboxes", json={"policy": TINY})) == (503, "runtime_too_old")
        assert "kept" in run(client, path, "print(kept)").json()["stdout"]
        exchange(runsc, good)
        assert run(client, opened(client), "print(1)").json()["stdout"] == "1\n"
        assert client.delete(path).json()["end_reason"] == "stopped"


# --- a clock that is set ----------------------------------------------------------------------------------------------

DAY = 86400.0


WAITING = "print('begun', flush=True)\nimport os\nwhile not os.path.exists('/tmp/go'): pass\nprint('ended')"


def test_a_wall_clock_that_jumps_ends_no_sandbox_and_no_run(home: House) -> None:
    client = home.client()
    path = opened(client)
    view, under_way = client.get(path).json(), lines_of(client, path, WAITING)
    while next(under_way).get("text") != "begun\n":
        pass
    for jump in (400 * DAY, -800 * DAY):
        home.wall[0] += jump
        assert run(client, path, "print('well')", context="other").json()["stdout"] == "well\n"
        moved = client.get(path).json()
        assert moved["state"] == "ready"
        assert moved["expires"] - view["expires"] == pytest.approx(home.wall[0] - view["created"], abs=60)
    assert client.put(f"{path}/files", params={"path": "/tmp/go"}, content=b"").status_code == 200
    assert list(under_way)[-1]["execution"]["outcome"] == "ok"
    ended = opened(client)
    assert client.delete(ended).status_code == 200
    home.wall[0] += 400 * DAY
    assert client.get(ended).json()["end_reason"] == "stopped", (
        "remembered for an hour that passes, not for one that is set"
    )


# --- an end amid work -------------------------------------------------------------------------------------------------


def told_of(environment: dict[str, str], path: str) -> dict[str, dict[str, Any]]:
    """The facts of a sandbox's entries, by kind."""
    entries = Reader(Path(environment["DAYFLY_DATA"]) / "server" / "journal.db").entries(path.rpartition("/")[2])
    return {row.entry.kind: json.loads(row.entry.facts) for row in entries}


def test_whoever_waits_when_the_server_is_told_to_stop_hears_how_it_ended(environment: dict[str, str]) -> None:
    with stopping_soon(environment) as (process, client), ThreadPoolExecutor() as pool:
        paths = [opened(client) for _ in range(4)]
        streams = [lines_of(client, paths[0], BUSY), lines_of(client, paths[1], BUSY, on_disconnect="keep")]
        for stream in streams:
            while next(stream).get("text") != "begun\n":
                pass
        argv = {"argv": ["sh", "-c", "echo begun; sleep 60"]}
        with client.stream("POST", f"{paths[3]}/processes", json=argv) as command:
            told = command.iter_lines()
            assert [json.loads(next(told))["type"] for _ in range(2)] == ["started", "stdout"]
            whole = pool.submit(run, client, paths[2], BUSY)
            while "execution.started" not in told_of(environment, paths[2]):
                pass
            process.send_signal(signal.SIGTERM)
            ends = [list(stream)[-1]["execution"] for stream in streams]
            ends += [json.loads(list(told)[-1])["result"], whole.result(30).json()]
        assert {(one["outcome"], one["end_reason"]) for one in ends} == {("sandbox_ended", "stopped")}
        assert process.wait(60) == 0
    for path, what in zip(paths, ["execution"] * 3 + ["process"], strict=True):
        facts = told_of(environment, path)
        assert (facts["sandbox.ended"]["reason"], facts[f"{what}.ended"]["outcome"]) == ("stopped", "sandbox_ended")
    assert here(environment, "ps").stdout == ""
    assert here(environment, "journal", "verify").returncode == 0
