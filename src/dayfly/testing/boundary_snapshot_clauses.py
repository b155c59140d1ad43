"""Clauses of the boundary contract about snapshots. A boundary that takes none must say so, and refuse."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dayfly.boundaries.base import Cell
from dayfly.boundaries.snapshot import MANIFEST, Snapshot
from dayfly.errors import BoundaryUnusable, DayflyError, HostError, SnapshotMismatch
from dayfly.limits import MIB, Limits
from dayfly.testing.boundary_subject import OPEN_SECONDS, Subject, opened
from dayfly.testing.echo import Echo

FURNISH = """
import socket, threading
mine, its = socket.socketpair()
if os.fork() == 0:
    mine.close()
    while data := its.recv(100): its.send(b'got ' + data)
    os._exit(0)
sys.mine = mine
sys.deleted = open('/tmp/deleted', 'w+b'); os.unlink('/tmp/deleted')
sys.content = os.urandom(1 << 20)
sys.deleted.write(sys.content); sys.deleted.flush()
open('/tmp/file', 'wb').write(sys.content)
"""
"""Things inside that a snapshot must keep: a child behind a socket, a file on the writable layer, one without a name."""

INSPECT = """
sys.mine.send(b'word')
reply(sys.mine.recv(100).decode())
sys.deleted.seek(0)
reply([sys.deleted.read() == sys.content, open('/tmp/file', 'rb').read() == sys.content])
"""
FURNISHED = ["got word", [True, True]]

Clause = Callable[[Subject], Awaitable[None]]


def where_there_are_snapshots(clause: Clause) -> Clause:
    """Elsewhere the boundary must refuse to take one, and have no identity for any."""

    @functools.wraps(clause)
    async def judged(subject: Subject) -> None:
        if subject.boundary.guarantees.snapshot:
            await clause(subject)
        else:
            await _refuses(subject)

    return judged


async def _refuses(subject: Subject) -> None:
    assert not subject.boundary.identity(subject.make_spec())
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        async with opened(subject) as (cell, _):
            assert await _failure(cell, Path(scratch) / "image") is BoundaryUnusable
        try:
            await subject.boundary.restore(Snapshot(Path(scratch), {}), subject.make_spec())
        except BoundaryUnusable:
            return
    raise AssertionError("it restores snapshots, but does not say so")


async def _failure(cell: Cell, directory: Path) -> type[Exception] | None:
    try:
        await cell.snapshot(directory)
    except DayflyError as error:
        return type(error)
    return None


@asynccontextmanager
async def snapshot_of(subject: Subject, code: str = FURNISH, **changes: Any) -> AsyncIterator[Snapshot]:
    """Of a cell that ran ``code`` and is gone."""
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        async with opened(subject, **changes) as (cell, echo):
            await echo.run(code)
            snapshot = await cell.snapshot(Path(scratch) / "image")
        yield snapshot


@asynccontextmanager
async def restored_from(subject: Subject, snapshot: Snapshot, **changes: Any) -> AsyncIterator[tuple[Cell, Echo]]:
    """Another cell that goes on where that one was."""
    async with asyncio.timeout(OPEN_SECONDS):
        cell = await subject.boundary.restore(snapshot, subject.make_spec(**changes))
    try:
        yield cell, Echo(cell.stream)
    finally:
        await cell.kill()


@where_there_are_snapshots
async def a_snapshot_continues_elsewhere_with_all_that_it_had(subject: Subject) -> None:
    async with snapshot_of(subject) as snapshot:
        async with restored_from(subject, Snapshot.load(snapshot.directory)) as (_, echo):
            assert await echo.run(INSPECT) == FURNISHED
        assert not subject.traces(), f"left after kill: {subject.traces()}"


@where_there_are_snapshots
async def restores_of_one_snapshot_are_separate_cells(subject: Subject) -> None:
    async with (
        snapshot_of(subject) as snapshot,
        restored_from(subject, snapshot) as (_, one),
        restored_from(subject, snapshot) as (other_cell, other),
    ):
        await one.run("sys.mine.close(); os.unlink('/tmp/file')")
        assert await other.run(INSPECT) == FURNISHED
        await other_cell.kill()
        assert await one.run("reply(1)") == [1]


@where_there_are_snapshots
async def a_snapshot_taken_under_other_conditions_is_refused_and_they_are_named(subject: Subject) -> None:
    spec = subject.make_spec()
    others: dict[str, dict[str, Any]] = {
        "image": {"image": replace(spec.image, digest="sha256:1")},
        "specification": {"limits": Limits(memory=spec.limits.memory + MIB)},
    }
    async with snapshot_of(subject) as snapshot:
        for name, changes in others.items():
            assert await _mismatch(subject, snapshot, **changes) == (name,), name
        for name in snapshot.identity:
            other = replace(snapshot, identity={**snapshot.identity, name: "other"})
            assert await _mismatch(subject, other) == (name,), name
        assert await _mismatch(subject, replace(snapshot, identity={})) == tuple(sorted(snapshot.identity))
    assert not subject.traces()


async def _mismatch(subject: Subject, snapshot: Snapshot, **changes: Any) -> tuple[str, ...]:
    try:
        cell = await subject.boundary.restore(snapshot, subject.make_spec(**changes))
    except SnapshotMismatch as error:
        return error.changed
    await cell.kill()
    raise AssertionError(f"restored although {changes or 'the identity'} differs")


@where_there_are_snapshots
async def a_snapshot_that_fails_leaves_no_directory_and_a_running_cell(subject: Subject) -> None:
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        taken = Path(scratch) / "taken"
        taken.mkdir()
        (taken / "mine").touch()
        async with opened(subject) as (cell, echo):
            for directory in (taken, Path(scratch) / "absent" / "image"):
                assert await _failure(cell, directory) is not None, directory
                assert await echo.echo(b"still here") == b"still here"
            assert _names(taken) == ["mine"], "a directory of somebody else's was touched"
            assert await _failure(cell, Path(scratch) / "image") is None
            await cell.kill()
            assert await _failure(cell, Path(scratch) / "late") is not None
        assert _names(scratch) == ["image", "taken"]


def _names(directory: str | Path) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


@where_there_are_snapshots
async def a_cancelled_snapshot_leaves_no_directory_and_a_running_cell(subject: Subject) -> None:
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        async with opened(subject) as (cell, echo):
            for seconds in (0.0, 0.005, 0.02, 0.04):
                taking = asyncio.ensure_future(cell.snapshot(Path(scratch) / "image"))
                await asyncio.wait([taking], timeout=seconds)
                taking.cancel()
                (done,) = await asyncio.gather(taking, return_exceptions=True)
                assert isinstance(done, (Snapshot, asyncio.CancelledError)), done
                if isinstance(done, Snapshot):
                    break
                assert not _names(scratch)
                assert await echo.echo(b"still here") == b"still here"


@where_there_are_snapshots
async def a_frozen_cell_can_be_snapshot(subject: Subject) -> None:
    with tempfile.TemporaryDirectory(prefix="dayfly-") as scratch:
        async with opened(subject) as (cell, echo):
            cell.freeze()
            snapshot = await cell.snapshot(Path(scratch) / "image")
            assert await echo.run("reply(1)") == [1]
        async with restored_from(subject, snapshot) as (_, echo):
            assert await echo.run("reply(2)") == [2]


@where_there_are_snapshots
async def a_damaged_image_ends_in_no_running_cell(subject: Subject) -> None:
    async with snapshot_of(subject) as snapshot:
        for path in snapshot.directory.iterdir():
            if path.name != MANIFEST:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                cell = await subject.boundary.restore(snapshot, subject.make_spec())
                await cell.wait()
        except HostError:
            pass
        assert not subject.traces(), f"left: {subject.traces()}"
