"""``tools/side_by_side.py``: no test is forgotten, and one that fails is not overheard."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools/side_by_side.py"


def test_every_test_belongs_to_one_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    groups = runpy.run_path(str(TOOL))["folders"]([])
    given = [Path(one) for group in groups for one in group]
    for file in Path("tests").rglob("test_*.py"):
        assert sum(file == one or one in file.parents for one in given) == 1, file


@pytest.mark.parametrize(("bodies", "code"), [(("pass", "pass"), 0), (("pass", "assert 0"), 1), (("", ""), 0)])
def test_all_is_well_when_each_of_them_is(tmp_path: Path, bodies: tuple[str, str], code: int) -> None:
    folders = []
    for number, body in enumerate(bodies):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        folders.append(str(folder))
        (folder / f"test_{number}.py").write_text(f"def test_it():\n    {body}\n" if body else "")
    done = subprocess.run(
        [sys.executable, str(TOOL), *folders, "--", "-p", "no:hypothesispytest", "-p", "no:schemathesis", "-p", "no:asyncio"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    assert all(f"--- {folder}: " in done.stdout for folder in folders), done.stdout


def test_each_may_keep_bytecode_whatever_its_caller_may(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import sys\n\ndef test_it():\n    assert not sys.dont_write_bytecode\n")
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path), "--", "-p", "no:hypothesispytest", "-p", "no:schemathesis", "-p", "no:asyncio"],
        cwd=tmp_path, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


SLOW = """
import pathlib, time, pytest

@pytest.fixture
def kept():
    yield
    pathlib.Path("cleared").touch()

def test_it(kept):
    pathlib.Path("begun").write_text("")
    time.sleep(600)
"""


def test_stopped_in_the_background_it_has_its_tests_clear_up(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "test_slow.py").write_text(SLOW)
    os.mkfifo(tmp_path / "begun")
    process = subprocess.Popen(
        [sys.executable, str(TOOL), str(folder), "--", "-p", "no:hypothesispytest", "-p", "no:schemathesis", "-p", "no:asyncio"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    try:
        (tmp_path / "begun").read_text()  # until it writes there
        process.terminate()
        assert process.wait(60) == 130
        assert (tmp_path / "cleared").exists()
    finally:
        process.kill()
