"""Taking a snapshot of a running cell: ``runsc checkpoint`` into a directory that it is given.

The image is not compressed: that costs 0.1-0.5 s at either end, and what it holds is mostly read once. It contains the
writable layer of the root, wherever on the host that lies.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from dayfly.boundaries.gvisor.command import checkpoint_command
from dayfly.boundaries.gvisor.identity import identity
from dayfly.boundaries.gvisor.start import Plan, translate
from dayfly.boundaries.processes import SYSTEM_PATH, Child, Program, in_spawner, own
from dayfly.boundaries.snapshot import Snapshot
from dayfly.boundaries.stderr import Stderr, last_words
from dayfly.errors import DayflyError, HostError, InputError, OutOfSpace

__all__ = ["CHECKPOINT_SECONDS", "TooSlow", "take"]

CHECKPOINT_SECONDS = 120.0
"""From asking for an image to all of it on disk: 0.05 s for a small cell, a second for each GiB that one holds, and disks
that are busy."""


class TooSlow(HostError):
    """The cell did not write its image in time; in which state it is, nobody knows."""


async def take(plan: Plan, directory: Path) -> Snapshot:
    """See ``Cell.snapshot``. Raises ``TooSlow`` too."""
    _make(directory)
    try:
        snapshot = Snapshot(directory, identity(plan))
        await _checkpoint(plan, directory)
        snapshot.save()
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        raise translate(error) from error
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return snapshot


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError(f"{directory} exists already", remedy="name a new directory for the snapshot") from None
    except OSError as error:
        raise translate(error) from error


async def _checkpoint(plan: Plan, directory: Path) -> None:
    stderr = Stderr()
    try:
        child = await own(in_spawner(lambda: Child.start(_program(plan, directory, stderr))), Child.kill)
        try:
            async with asyncio.timeout(CHECKPOINT_SECONDS):
                await child.ended()
        except TimeoutError:
            raise TooSlow(f"the snapshot took more than {CHECKPOINT_SECONDS:g} s") from None
        finally:
            child.kill()
            code = child.reap()
        if code != 0:
            raise _failure(code, last_words(stderr.text()))
    finally:
        stderr.close()


def _program(plan: Plan, directory: Path, stderr: Stderr) -> Program:
    return Program(
        argv=checkpoint_command(plan.abilities, plan.layout, directory),
        stdin=stderr.descriptor,  # it reads nothing
        stdout=stderr.descriptor,
        stderr=stderr.descriptor,
        environment={"PATH": SYSTEM_PATH},
        directory=Path("/"),
    )


def _failure(code: int, said: str) -> DayflyError:
    text = f"gVisor could not take the snapshot (exit code {code}): {said or 'it said nothing'}"
    if "no space left" in said.lower() or "disk quota exceeded" in said.lower():
        return OutOfSpace(text, remedy="free some space, or keep snapshots on another disk")
    return HostError(text, remedy="run: dayfly doctor")
