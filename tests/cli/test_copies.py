"""``dayfly run`` with a policy that copies: objects in, files out, and what became of them said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.leftovers import Dayfly
from tests.egress.objects.store import KEY_ID, SECRET, Store, running

POLICY = """
image = "python"

[[inputs]]
bucket = "lake"
prefix = "data/"
endpoint = "{endpoint}"
credentials = "lake"
private = "127.0.0.0/8"
to = "in"

[[outputs]]
bucket = "lake"
prefix = "results/{name}/"
endpoint = "{endpoint}"
credentials = "lake"
private = "127.0.0.0/8"
from = "out"
"""

CODE = "import os; os.mkdir('out'); open('out/a', 'w').write(open('in/a.csv').read()); os.symlink('/etc/passwd', 'out/b'); print('done')"

KEYS = {"DAYFLY_SECRET_LAKE": f"{KEY_ID}:{SECRET}", "DAYFLY_SECRET_LAKE__HOSTS": "localhost"}

pytestmark = pytest.mark.gvisor


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with running() as made:
        yield made


def policy(directory: Path, endpoint: str, name: str) -> Path:
    file = directory / "policy.toml"
    file.write_text(POLICY.format(endpoint=endpoint, name=name))
    return file


def test_a_run_reads_objects_and_leaves_objects(dayfly: Dayfly, store: Store, tmp_path: Path) -> None:
    done = dayfly("run", "--policy", policy(tmp_path, store.endpoint, "run"), "-c", CODE, **KEYS)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "saved 1 objects (12 bytes)" in done.stderr
    assert "left out: 'out/b' is a symbolic link" in done.stderr
    assert store.contents("results/run/") == {"results/run/a": b"x,y\n1,2\n3,4\n"}


def test_as_json_it_is_a_part_of_the_answer(dayfly: Dayfly, store: Store, tmp_path: Path) -> None:
    done = dayfly("run", "--json", "--policy", policy(tmp_path, store.endpoint, "json"), "-c", CODE, **KEYS)
    told = json.loads(done.stdout)
    assert told["outputs"]["keys"] == ["results/json/a"]
    assert told["outputs"]["left_out"] == [{"path": "out/b", "reason": "is a symbolic link"}]
    assert SECRET not in done.stdout + done.stderr


def test_a_shell_saves_when_it_is_left(dayfly: Dayfly, store: Store, tmp_path: Path) -> None:
    done = dayfly("shell", "--policy", policy(tmp_path, store.endpoint, "shell"), input=CODE + "\n", **KEYS)
    assert done.returncode == 0, done.stderr
    assert store.contents("results/shell/") == {"results/shell/a": b"x,y\n1,2\n3,4\n"}


def test_without_the_secret_nothing_runs(dayfly: Dayfly, store: Store, tmp_path: Path) -> None:
    done = dayfly("run", "--policy", policy(tmp_path, store.endpoint, "no"), "-c", CODE)
    assert (done.returncode, done.stdout) == (2, "")
    assert "secret 'lake'" in done.stderr or "lake" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_code_printed_is_not_lost_with_its_outputs(dayfly: Dayfly, store: Store, tmp_path: Path) -> None:
    file = policy(tmp_path, store.endpoint, "lost")
    head, _, tail = file.read_text().partition("[[outputs]]")
    file.write_text(head + "[[outputs]]" + tail.replace(store.endpoint, "http://localhost:9"))
    done = dayfly("run", "--policy", file, "-c", CODE, **KEYS)
    assert done.stdout == "done\n"
    assert done.returncode != 0
    assert "its outputs were not saved" in done.stderr
    assert "Traceback" not in done.stderr
