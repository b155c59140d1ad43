"""A sandbox as it was at one moment, on disk, and lives that go on from it: a pause, a fork, a template that is warm."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dayfly.boundaries.base import Cell
from dayfly.boundaries.snapshot import Snapshot
from dayfly.errors import DayflyError, HostError
from dayfly.sandbox.inside import FAILURES, Inside
from dayfly.sandbox.link import Link
from dayfly.spec import EndReason
from dayfly.wire import operations
from dayfly.wire.bookmark import Bookmark
from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["Renewed", "SnapshotCalls", "Suspended"]

T = TypeVar("T")

QUIET_SECONDS = 10.0
"""Until the agent has fallen silent, or spoken again. It takes a millisecond, or as long as the pipes hold megabytes."""

_FILE = "life.json"
_SHOWN = 200  # characters of names, which are claims, in an error
_MOST_BYTES = 64 * 1024
_MOST_NAMES = 1024  # of generators and contexts in one answer: 16 contexts have a hundred


@dataclass(frozen=True)
class Suspended:
    """All that another ``Life`` needs to go on from here, as often as wanted. ``facts`` are the agent's claims."""

    snapshot: Snapshot
    bookmark: Bookmark
    facts: Mapping[str, Any]

    def save(self) -> None:
        """Write it down beside the snapshot, for another process. Raises ``OSError``."""
        path = self.snapshot.directory / _FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps({"bookmark": self.bookmark.numbers(), "facts": dict(self.facts)}), "utf-8")

    @classmethod
    def load(cls, directory: Path) -> Suspended:
        """What ``save`` wrote. Raises ``HostError``."""
        snapshot = Snapshot.load(directory)
        try:
            with (directory / _FILE).open("rb") as file:
                record = json.loads(file.read(_MOST_BYTES))
            facts = operations.check(record["facts"], operations.WELCOME_FACTS, "facts", LocalProtocolError)
            return cls(snapshot, Bookmark.of(record["bookmark"]), facts)
        except (OSError, ValueError, LookupError, TypeError, LocalProtocolError) as error:
            raise HostError(f"no suspended sandbox in {directory}", remedy="start a new one") from error

    def discard(self) -> None:
        """Remove it from the disk. Idempotent. Raises ``OSError``."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.snapshot.directory)


@dataclass(frozen=True)
class Renewed:
    """What was drawn anew after a restore, what goes on as it was, and contexts that did not answer: the agent's claims."""

    renewed: tuple[str, ...]
    kept: tuple[str, ...]
    unanswered: tuple[str, ...]


Keep = Callable[[Suspended], Awaitable[None]]
"""Puts a snapshot where it is safe, while the sandbox stands still."""


@dataclass
class _Wish:
    """What is to become of a sandbox after its snapshot; a caller that is cancelled wishes no more."""

    end: bool
    keep: Keep | None = None
    ended: bool = False


class SnapshotCalls:
    """The part of a ``Life`` that stops it and takes it up again. ``renewed`` is what was drawn anew when it was restored."""

    renewed: Renewed | None = None
    _cell: Cell
    _link: Link
    _inside: Inside

    async def snapshot(self, directory: Path) -> Suspended:
        """Take a snapshot into the new ``directory`` and go on. Calls that come meanwhile wait.

        Raises ``BusyError`` while calls are under way, ``SandboxEnded``, and what ``Cell.snapshot`` raises; after these
        the sandbox goes on.
        """
        return await self._whole(directory, _Wish(end=False))

    async def suspend(self, directory: Path, keep: Keep | None = None) -> Suspended:
        """Take a snapshot, and end: nothing that happens after it is lost, for nothing does. ``keep`` comes between the two;
        what it raises lets the sandbox go on. Raises what ``snapshot`` and ``keep`` do."""
        return await self._whole(directory, _Wish(end=True, keep=keep))

    async def cease(self, seconds: float) -> None:
        """Stop what is under way, as its callers could, for so long at most: runs are interrupted, commands are killed, and
        each caller gets what there was. What does not stop goes on."""
        with suppress(TimeoutError, *FAILURES):
            async with asyncio.timeout(seconds):
                await self._link.cease()

    async def _whole(self, directory: Path, wish: _Wish) -> Suspended:
        """To the end even if the caller is cancelled: half of it would leave a silent sandbox. Then the sandbox goes on and
        nothing is kept; or, if it had ended by then, all is kept in ``directory``."""
        task = asyncio.ensure_future(self._take(directory, wish))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            wish.end = False
            with suppress(DayflyError, OSError):
                suspended = await task
                suspended.save() if wish.ended else suspended.discard()
            raise

    async def _take(self, directory: Path, wish: _Wish) -> Suspended:
        with self._inside.call():
            bookmark = await self._turn(self._link.quiesce(), "fall silent")
            try:
                snapshot = await self._cell.snapshot(directory)
                suspended = Suspended(snapshot, bookmark, dict(self._link.facts))
                if wish.keep is not None:
                    await wish.keep(suspended)
            except BaseException:
                await self._turn(self._link.resume(), "speak again")
                raise
            if wish.end:
                wish.ended = True
                await self._inside.life.kill(EndReason.PAUSED, "")
            else:
                await self._turn(self._link.resume(), "speak again")
        return suspended

    async def go_on(self, suspended: Suspended, hostname: str, *, keep_seeds: bool) -> None:
        """On a cell that was just restored, before anything else: speak to its agent again, and have it renew what must
        differ. Raises public errors; it is good for nothing then."""
        self._link.facts = dict(suspended.facts)
        await self._turn(self._link.resume(), "speak again")
        renewed = await self._turn(self._renew(hostname, keep_seeds), "renew its random state")
        if renewed.unanswered and not keep_seeds:
            which = ", ".join(renewed.unanswered)[:_SHOWN]
            raise HostError(f"kernels did not renew their random state: {which!a}", remedy="try again, or start anew")
        self.renewed = renewed

    async def _renew(self, hostname: str, keep_seeds: bool) -> Renewed:
        call = await self._link.open(operations.RENEW, {"hostname": hostname, "keep_seeds": keep_seeds})
        value = await call.answer()
        return Renewed(*(_names(value[key]) for key in ("renewed", "kept", "unanswered")))

    async def _turn(self, work: Awaitable[T], what: str) -> T:
        """Wait for the agent, but not for ever. Raises public errors."""
        try:
            async with asyncio.timeout(QUIET_SECONDS):
                return await work
        except TimeoutError:
            await self._inside.kill_unconfirmed(f"the agent did not {what} within {QUIET_SECONDS:g} s")
            raise HostError(f"the sandbox's agent did not {what}", remedy="start a new sandbox") from None
        except FAILURES as caught:
            raise await self._inside.error(caught) from None


def _names(claimed: list[object]) -> tuple[str, ...]:
    """Text of the agent's, bounded. Raises ``RemoteProtocolError``."""
    if len(claimed) > _MOST_NAMES or any(not isinstance(name, str) or len(name) > 512 for name in claimed):
        raise RemoteProtocolError("an answer with other things than a few names")
    return tuple(str(name) for name in claimed)
