"""A program that uses the library may end in any way: nothing of its sandboxes is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.leftovers import leftovers

pytestmark = pytest.mark.gvisor

WAYS = {
    "forgetting to close": ("pass", 0),
    "an exception nobody catches": ("raise LookupError('mine')", 1),
    "sys.exit": ("sys.exit(5)", 5),
    "a forked child that exits": ("sys.exit(0) if os.fork() == 0 else os.wait()", 0),
    "a sandbox in use by a thread": (
        "threading.Thread(target=sandbox.run_code, args=('while True: pass',), daemon=True).start()", 0,
    ),
    "many sandboxes": ("more = [Sandbox(image='python') for _ in range(3)]", 0),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_after(environment: dict[str, str], data: Path, way: str) -> None:
    action, code = WAYS[way]
    script = f"""
import os, sys, threading, warnings
from dayfly import Sandbox
warnings.simplefilter("ignore", DeprecationWarning)
sandbox = Sandbox(image="python")
print(sandbox.run_code("6 * 7").text, flush=True)
{action}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("42\n", code), done.stderr
    assert done.stderr == "" or way == "an exception nobody catches"
    assert leftovers(data) == []
