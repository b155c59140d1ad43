"""A ``dayfly`` command over a data directory of its own, so that whatever a run leaves behind can be seen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.leftovers import Dayfly, leftovers
from tests.forks import ready
from tests.machine import furnished_directory


@pytest.fixture
def data() -> Iterator[Path]:
    """This user's runsc and images, and nobody else's cells. Nothing may be left in it."""
    with furnished_directory() as own:
        yield own
        left = leftovers(own)
    assert left == []


@pytest.fixture
def environment(data: Path, tmp_path: Path) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("DAYFLY_DEBUG", "XDG_STATE_HOME", "COLUMNS")
    }
    return {**kept, "DAYFLY_DATA": str(data), "XDG_STATE_HOME": str(tmp_path / "state"), "SECRET_OF_THE_HOST": "s3cret"}


@pytest.fixture
def dayfly(environment: dict[str, str], tmp_path: Path) -> Dayfly:
    """Run the command line to its end."""

    def call(*arguments: object, input: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ready(), *map(str, arguments)],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=100,
            cwd=tmp_path,
            env={**environment, **more},
            check=False,
        )

    return call
