"""A ``dayfly`` command over a data directory of its own, so that whatever a run leaves behind can be seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly.paths import default_paths
from tests.cli.leftovers import Dayfly, leftovers


@pytest.fixture
def data() -> Iterator[Path]:
    """This user's runsc and images, and nobody else's cells. Nothing may be left in it."""
    own = Path(tempfile.mkdtemp(prefix="dayfly-", dir="/var/tmp"))  # short: sockets live below it; on disk
    own.chmod(0o755)
    for shared in (default_paths().bin, default_paths().images):
        (own / shared.name).symlink_to(shared)
    yield own
    left = leftovers(own)
    shutil.rmtree(own)
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
            [sys.executable, "-m", "dayfly", *map(str, arguments)],
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
