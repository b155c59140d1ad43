"""What a start costs: counted in imports here, since time is measured by ``make bench`` and asserted nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dayfly.agent_bundle import agent_for
from dayfly.spec import Image

SLOW = {
    "argparse", "asyncio", "collections", "contextlib", "ctypes", "dataclasses", "datetime", "enum", "functools", "hashlib",
    "inspect", "json", "logging", "pathlib", "pickle", "random", "re", "resource", "selectors", "shutil", "signal", "socket",
    "struct", "subprocess", "tarfile", "tempfile", "termios", "threading", "traceback", "typing", "zipfile",
}  # fmt: skip
"""Modules that cost milliseconds each inside gVisor."""

LATER = {
    "files",
    "content",
    "commands",
    "processes",
    "trees",
    "watch",
    "ports",
    "memory",
    "settings",
    "worker",
    "clerk",
    "errands",
    "openings",
    "network",
    "services",
}
"""Parts of the agent that are imported when first asked for."""


def imported(agents: Path, code: str) -> set[str]:
    """Modules that a Python without site has after ``code``, beyond those that it always has."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    bundle = agent_for(Image("any", "sha256:0", os.uname().machine, Path("/"), python_version=version), agents)
    listing = "\nimport sys; print(*sys.modules, sep='\\n')"
    found = []
    for program in ("", code):
        command = [sys.executable, "-I", "-S", "-c", program + listing, str(bundle)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        found.append(set(done.stdout.split("\n")))
    return found[1] - found[0]


def test_nothing_slow_is_imported_before_the_welcome(agents: Path) -> None:
    code = (
        "import sys, os; sys.path.insert(0, sys.argv[1])\n"
        "from dayfly.agent.__main__ import Agent, Loop\n"
        "from dayfly.wire.connection import PROTOCOL, Connection\nfrom dayfly.wire.messages import HOST, Hello\n"
        "there, back = os.pipe(), os.pipe()\nhost = Connection(HOST)\n"
        "host.send(Hello(PROTOCOL, 'n', {'limits': {}, 'env': {}, 'user': None, 'prestart': []}))\n"
        "os.writev(there[1], host.take_output())\nloop = Loop()\nagent = Agent(loop, there[0], back[1])\n"
        "os.getpid = lambda: 1\n"  # else it makes itself the adopter of orphans, by ctypes
        "loop.step()\n"
        "assert host.receive(os.read(back[0], 4096))[0].message.facts['languages']\n"
    )
    found = imported(agents, code)
    assert "dayfly.agent.supervisor" in found
    assert not found & SLOW
    assert not {name.rpartition(".")[2] for name in found if name.startswith("dayfly.agent.")} & LATER


def test_the_list_of_slow_modules_is_a_live_one(agents: Path) -> None:
    """The same look does see a slow import."""
    assert {"json", "re", "enum"} <= imported(agents, "import json")
