"""Who makes a server's proofs: a process of its own, of this configuration, that ends and says little whatever happens."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.cli import prover
from dayfly.cli.prover import DYING, Child, _ran
from dayfly.errors import HostError, ImageNotFound
from dayfly.paths import Paths
from dayfly.policy import Policy
from dayfly.server.proven import Subject
from tests.machine import furnished_directory

PYTHON = Subject("small", Policy(image="python"))
TEMPLATE = '[templates.small.policy]\nimage = "python"\n'


@pytest.fixture
def paths() -> Iterator[Paths]:
    with furnished_directory() as data:
        yield Paths(data, data / "run")


def python(code: str) -> tuple[str, ...]:
    return (*DYING, sys.executable, "-c", code)


def test_a_proof_stands_on_dayfly_runsc_the_kernel_the_image_and_the_policy(paths: Paths) -> None:
    child = Child(paths)
    stands_on = child.stands_on(PYTHON)
    assert stands_on.keys() == {"dayfly", "runsc", "kernel", "image", "policy", "preload"}
    assert child.stands_on(PYTHON) == stands_on
    other = child.stands_on(Subject("small", Policy(image="python", strict=True)))
    assert {name for name in stands_on if stands_on[name] != other[name]} == {"policy"}
    data = child.stands_on(Subject("small", Policy(image="data")))
    assert {name for name in stands_on if stands_on[name] != data[name]} == {"image", "policy"}
    loading = child.stands_on(replace(PYTHON, preload=("json",)))
    assert {name for name in stands_on if stands_on[name] != loading[name]} == {"preload"}
    with pytest.raises(ImageNotFound):
        child.stands_on(Subject("small", Policy(image="nowhere")))


def test_another_runsc_of_the_same_version_is_another(paths: Paths) -> None:
    child = Child(paths)
    before = child.stands_on(PYTHON)["runsc"]
    shared = paths.bin.resolve()
    paths.bin.unlink()  # a link to this user's own, which stays as it is
    shutil.copytree(shared, paths.bin, symlinks=True)
    assert child.stands_on(PYTHON)["runsc"] != before


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (TEMPLATE.replace("python", "data"), "has changed"),
        (TEMPLATE + "[templates.small]\npreload = ['json']\n", "has changed"),
        ("", "has changed"),
        ("[templates.small.policy]\nimage = 7\n", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_says_something_else_than_the_server_has_read_proves_nothing(
    paths: Paths, tmp_path: Path, now: str | None, said: str
) -> None:
    file = tmp_path / "server.toml"
    if now is not None:
        file.write_text(now)
    with pytest.raises(HostError, match=said) as refused:
        asyncio.run(Child(paths, file).prove(PYTHON))
    assert "start the server anew" in str(refused.value.remedy)


def test_where_there_is_no_report_its_last_words_are_told_bounded_and_printable(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; sys.stderr.write('\\x1b[2J' + 'no ' * 10_000 + 'end'); sys.exit(3)"
    monkeypatch.setattr(Child, "_command", lambda self, subject: python(code))
    with pytest.raises(HostError, match="ended with 3 and no report") as refused:
        asyncio.run(Child(paths).prove(PYTHON))
    assert refused.value.message.endswith("end")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 700


def test_what_it_says_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "MOST_REPORT", 1000)
    code, out, err = asyncio.run(_ran(python("import sys; print('o' * 5000); sys.stderr.write('e' * 5000)")))
    assert (code, len(out), len(err)) == (0, 1000, 1000)


def test_one_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prover, "MOST_SECONDS", 0.2)
    with pytest.raises(HostError, match="has not ended within"):
        asyncio.run(_ran((*DYING, "sleep", "1000.25")))
    assert _processes("1000.25") == []


def test_one_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prover, "END_SECONDS", 0.2)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    code = (
        "import signal, sys, pathlib; signal.signal(15, signal.SIG_IGN); "
        f"pathlib.Path({str(ready)!r}).write_text('')\nwhile True: sys.stdout.write('x' * 65536)"
    )

    async def cancelled() -> None:
        running = asyncio.ensure_future(_ran(python(code)))
        await asyncio.to_thread(ready.read_text)  # it has begun, and ignores signals
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert _processes(str(ready)) == []


def _processes(word: str) -> list[int]:
    """Those that have it in their command line, this one apart."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if word in (path / "cmdline").read_bytes().decode("utf-8", "replace") and int(path.name) != os.getpid():
                found.append(int(path.name))
        except OSError:
            continue
    return found
