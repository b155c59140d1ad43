"""Runs the tests, three folders at a time: some of the time a test waits, and its core is idle.

    python tools/side_by_side.py [FOLDER ...] [-- ARGUMENT OF PYTEST ...]

Each folder is a pytest of its own, shown when it is over; the files directly in ``tests`` count as one. Without folders:
all that there are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

AT_ONCE = 3
"""One more than the smallest machine that this is for has cores: while one folder's test waits, another has its core. With
four, no less time was taken (2026-12-01), and what a program is to do in a second was not done in it."""

TESTS = Path("tests")

LONGEST = (
    "server",
    "network",
    "cli",
    "agent",
    "prove",
    "boundaries",
    "kernels",
    "promises",
    "client",
    "escapes",
    "egress",
    "images",
)
"""They begin first, so that all come to their end at about the same time."""

NOTHING_TO_RUN = 5  # pytest's exit code where every test was left out


def folders(named: list[str]) -> deque[list[str]]:
    """What each pytest is given."""
    found = {path.parent for path in TESTS.glob("*/**/test_*.py")}
    tops = {TESTS / path.relative_to(TESTS).parts[0] for path in found}
    rank = {name: number for number, name in enumerate(LONGEST)}
    ordered = sorted(map(Path, named) if named else tops, key=lambda path: (rank.get(path.name, len(rank)), path))
    groups = deque([str(path)] for path in ordered)
    if not named:
        groups.append(sorted(map(str, TESTS.glob("test_*.py"))))
    return groups


def _interruptible() -> None:
    """Also where this was started in the background, where a shell has its children ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def environment() -> dict[str, str]:
    """Of each pytest. Where bytecode is not kept, every one of them compiles all of its tests again, and every server that a test
    starts all of dayfly: together a tenth of the time."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


async def run(paths: list[str], arguments: list[str]) -> bool:
    """Whether all is well. When this is cancelled, pytest is asked to end, once, so that it clears up."""
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", *arguments, *paths,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        start_new_session=True, preexec_fn=_interruptible, env=environment(),
    )  # fmt: skip
    try:
        said, _ = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await process.wait()
        raise
    name = paths[0] if len(paths) == 1 else str(TESTS / "*.py")
    sys.stdout.write(f"{said.decode('utf-8', 'replace')}--- {name}: {time.monotonic() - begun:.0f} s\n")
    sys.stdout.flush()
    return process.returncode in (0, NOTHING_TO_RUN)


async def main(named: list[str], arguments: list[str]) -> int:
    waiting = folders(named)
    results: list[bool] = []

    async def one_after_the_other() -> None:
        while waiting:
            results.append(await run(waiting.popleft(), arguments))

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_the_other())
    return 0 if all(results) else 1


if __name__ == "__main__":
    given = sys.argv[1:]
    cut = given.index("--") if "--" in given else len(given)
    try:
        sys.exit(asyncio.run(main(given[:cut], given[cut + 1 :])))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(130)
