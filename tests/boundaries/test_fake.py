"""The fake boundary's guard against accidents: what root's agent cannot change, and who else could."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.boundaries import fake as module
from dayfly.testing.boundary_subject import Subject, opened
from dayfly.testing.echo import InsideError

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="others' rights on files are guard enough")


@pytest.fixture
def precious() -> Iterator[Path]:
    """A file of this user's, outside of any scratch directory."""
    with tempfile.NamedTemporaryFile(prefix="dayfly precious ") as file:
        Path(file.name).write_text("kept")
        yield Path(file.name)


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
