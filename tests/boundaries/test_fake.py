"""The fake boundary: its guard against accidents, and what it says where it cannot be used."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.boundaries import fake as module
from dayfly.boundaries.fake import FakeBoundary
from dayfly.errors import BoundaryUnusable
from dayfly.testing.boundary_subject import Subject, opened
from dayfly.testing.echo import InsideError
from tests.machine import short_directory

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="others' rights on files are guard enough")


@pytest.fixture
def precious() -> Iterator[Path]:
    """A file of this user's on a disk, outside of any scratch directory."""
    place = next((path for path in (tempfile.gettempdir(), "/var/tmp", Path(__file__).parent) if on_disk(path)), None)
    if place is None:
        pytest.skip("no place for a file here is on a disk, and the guard leaves memory out")
    with tempfile.NamedTemporaryFile(prefix="dayfly precious ", dir=place) as file:
        Path(file.name).write_text("kept")
        yield Path(file.name)


def on_disk(path: str | Path) -> bool:
    told = subprocess.run(["stat", "--file-system", "--format=%T", path], capture_output=True, text=True, check=True)
    return told.stdout.strip() not in ("tmpfs", "ramfs")


@ROOT_ONLY
async def test_root_s_fake_agent_changes_no_file_of_the_machine(fake: Subject, precious: Path) -> None:
    async with opened(fake) as (_, echo):
        with pytest.raises(InsideError, match="Read-only file system"):
            await echo.run(f"open({str(precious)!r}, 'w')")
        assert await echo.run("open('own', 'w').write('x'); reply(open('own').read())") == ["x"]
    assert precious.read_text() == "kept"


@ROOT_ONLY
async def test_the_control_without_the_guard_it_does(
    fake: Subject, precious: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing.sh"
    nothing.write_text('shift; exec "$@"\n')
    monkeypatch.setattr(module, "_GUARD", nothing)
    async with opened(fake) as (_, echo):
        await echo.run(f"open({str(precious)!r}, 'w')")
    assert precious.read_text() == ""


async def test_the_scratch_directory_can_be_written_through_a_symbolic_link_too(fake: Subject, data: Path) -> None:
    with short_directory() as links:
        (links / "link").symlink_to(data)
        linked = replace(fake, boundary=FakeBoundary(trusted_code=True, directory=links / "link"))
        async with opened(linked) as (_, echo):
            assert await echo.run("open('own', 'w').write('x'); reply(open('own').read())") == ["x"]


def tools(directory: Path, **scripts: str) -> str:
    """A PATH with the host's ``setpriv`` and these."""
    (directory / "setpriv").symlink_to("/usr/bin/setpriv")
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    return str(directory)


@ROOT_ONLY
@pytest.mark.parametrize(
    ("scripts", "said"),
    [
        ({}, "unshare, mount missing"),
        ({"unshare": "exit 1", "mount": "exit 0"}, "none may be made"),
        ({"unshare": "exec sleep 1000", "mount": "exit 0"}, "none may be made"),
    ],
    ids=["missing", "refused", "hanging"],
)
async def test_root_hears_at_once_that_no_mount_namespace_can_be_made(
    fake: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripts: dict[str, str], said: str
) -> None:
    """As in a container without CAP_SYS_ADMIN: not only from the agent's end."""
    monkeypatch.setattr(module, "_TRIAL_SECONDS", 0.2)
    monkeypatch.setattr(module, "SYSTEM_PATH", tools(tmp_path, **scripts))
    report = fake.boundary.probe()
    assert not report.usable
    assert said in report.reasons[0]
    assert report.remedies[0]
    with pytest.raises(BoundaryUnusable, match=said):
        await fake.boundary.open(fake.make_spec())
    monkeypatch.undo()
    assert fake.boundary.probe().usable, "what was mended is not seen"
    async with opened(fake):
        pass


async def test_a_start_that_fails_while_it_is_cancelled_is_cancelled(
    fake: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def start(*_: object) -> None:
        begun.set()
        go.wait()
        raise FileNotFoundError

    monkeypatch.setattr(module._Body, "start", start)
    opening = asyncio.create_task(fake.boundary.open(fake.make_spec()))
    await asyncio.to_thread(begun.wait)
    opening.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
