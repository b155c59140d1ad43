"""Sandboxes that are stopped with their memory, gone on with, and copied.

Laws: a sandbox is alive or paused, never both, and at no moment neither: it ends only when its memory is sealed and its
record written, and these are removed only when it lives again. Whatever fails in between, it is what it was before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dayfly.errors import ImageNotFound, InputError, SandboxEnded
from dayfly.limits import LONGEST_PAUSE, MOST_FORKS
from dayfly.manager.paused import KeptFor, Paused, Records, Remembered
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.sealing import NOWHERE
from dayfly.manager.shelf import Shelf
from dayfly.sandbox import Suspended
from dayfly.spec import EndReason

__all__ = ["AT_ONCE", "KEPT_TOO_LONG", "Pauses", "whole"]

T = TypeVar("T")

AT_ONCE = 4
"""Pauses and resumes: each holds a second copy of a sandbox's memory, and a disk is not faster for more."""

FORKS_AT_ONCE = 2
"""Fewer: one may wait for the machine to have room, and must not keep all others from their turns."""

KEPT_TOO_LONG = "it was paused for as long as it may be"

_IMAGE = "snapshot"


class Lease(Protocol):
    def close(self) -> None: ...


class Pauses:
    """All paused sandboxes of a manager, on one event loop. ``hold`` keeps an image from being removed; ``now`` is the wall
    clock in seconds since 1970."""

    def __init__(
        self,
        shelf: Shelf,
        hold: Callable[[str], Lease],
        records: Records | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._shelf = shelf
        self._hold = hold
        self._records: Records = records or Remembered()
        self._now = now
        self._all: dict[str, Paused] = {}
        self._leases: dict[str, Lease] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._forking = asyncio.Semaphore(FORKS_AT_ONCE)

    @property
    def all(self) -> Mapping[str, Paused]:
        """By id."""
        return self._all

    async def find(self, sandbox: str) -> Paused:
        """Raises ``InputError`` if it is not paused, and ``SandboxEnded`` if it was for as long as it may be: then it is gone."""
        if sandbox not in self._all:
            raise InputError("that sandbox is not paused", remedy="pause it first")
        if self._all[sandbox].expires <= self._now():
            await self.discard(sandbox)
            raise SandboxEnded(EndReason.EVICTED.value, KEPT_TOO_LONG)
        return self._all[sandbox]

    async def load(self) -> None:
        """Those that another process has left. Raises ``HostError``, and ``OSError`` where the shelf cannot be swept."""
        found = await asyncio.to_thread(lambda: list(self._records.all()))
        await asyncio.to_thread(self._shelf.sweep, {one.sealed.file for one in found})
        for one in found:
            self._all[one.id] = one
            with suppress(ImageNotFound):  # whoever wants to go on with it hears of that
                self._leases[one.id] = self._hold(one.image)

    async def pause(
        self, life: RecordedLife, owner: KeptFor, *, seconds: float = LONGEST_PAUSE, most: int | None = None
    ) -> Paused:
        """Stop it, for so many seconds and with so many bytes on disk at most. To the end, even if the caller is cancelled.

        Raises ``BusyError``, ``SandboxEnded``, ``OutOfSpace`` and ``HostError``; it goes on then.
        """
        if not 0 < seconds <= LONGEST_PAUSE:
            raise InputError(f"a sandbox cannot be paused for {seconds:g} s", remedy=f"at most {LONGEST_PAUSE:g} s")
        return await whole(self._pause(life, owner, seconds, most))

    async def _pause(self, life: RecordedLife, owner: KeptFor, seconds: float, most: int | None) -> Paused:
        lease = self._hold(life.spec.image.digest)
        try:
            paused = await self._put_away(life, owner, self._now() + seconds, most)
        except BaseException:
            lease.close()
            raise
        self._keep(paused, lease)
        return paused

    async def _put_away(self, life: RecordedLife, owner: KeptFor, expires: float, most: int | None) -> Paused:
        made: list[Paused] = []

        async def keep(suspended: Suspended) -> None:
            unsealed = _described(life, owner, expires)
            made.append(await asyncio.to_thread(self._put, suspended, unsealed, most))

        async with self._plain(_size(life)) as place:
            await life.suspend(place / _IMAGE, keep)
        (paused,) = made
        if life.end_reason is not EndReason.PAUSED:  # it ended by itself at that moment
            await asyncio.to_thread(self._destroy, paused)
            raise SandboxEnded(str(life.end_reason), life.end_detail)
        return paused

    async def unsealed(self, paused: Paused, restore: Callable[[Suspended], Awaitable[RecordedLife]]) -> RecordedLife:
        """Have ``restore`` go on with it. Raises what that raises, and ``HostError``; it stays paused in any case."""
        async with self._plain(paused.sealed.size) as place:
            await asyncio.to_thread(self._shelf.take, paused.sealed, place / _IMAGE)
            return await restore(Suspended.load(place / _IMAGE))

    async def alive_again(self, paused: Paused, life: RecordedLife) -> None:
        """It is not paused any more. Raises ``HostError``; then it is still, and ``life`` is gone."""
        try:
            await self.discard(paused.id)
        except BaseException:
            await life.kill(EndReason.PAUSED, "")
            raise
        life.carry_on(paused.lived, paused.left, paused.cpu_seconds)

    async def fork(
        self, life: RecordedLife, count: int, restore: Callable[[Suspended], Awaitable[RecordedLife]]
    ) -> Sequence[RecordedLife]:
        """So many that go on from where it is now, all or none; it goes on too. Raises ``BusyError``, ``SandboxEnded``,
        ``InputError``, what ``restore`` raises, and ``HostError``."""
        if not 1 <= count <= MOST_FORKS:
            raise InputError(f"not a number of forks: {count}", remedy=f"1 to {MOST_FORKS}")
        async with self._forking, self._plain(_size(life)) as place:
            suspended = await life.snapshot(place / _IMAGE)
            found = await asyncio.gather(*(restore(suspended) for _ in range(count)), return_exceptions=True)
        made = [one for one in found if isinstance(one, RecordedLife)]
        for failure in found:
            if isinstance(failure, BaseException):
                await asyncio.gather(*(one.close() for one in made))
                raise failure
        return made

    async def discard(self, sandbox: str) -> None:
        """Forget it and destroy its memory; nothing happens if it is not paused. Raises ``HostError``."""
        if sandbox in self._all:
            await asyncio.to_thread(self._destroy, self._all[sandbox])
            self._all.pop(sandbox, None)
            self._release(sandbox)

    async def close(self) -> None:
        """Forget those that do not last."""
        await asyncio.to_thread(self._shelf.close)
        self._all.clear()
        for sandbox in list(self._leases):
            self._release(sandbox)

    def _keep(self, paused: Paused, lease: Lease) -> None:
        self._all[paused.id] = paused
        self._leases[paused.id] = lease

    def _release(self, sandbox: str) -> None:
        lease = self._leases.pop(sandbox, None)
        if lease is not None:
            lease.close()

    def _put(self, suspended: Suspended, unsealed: Paused, most: int | None) -> Paused:
        suspended.save()
        paused = replace(unsealed, sealed=self._shelf.put(suspended.snapshot.directory, unsealed.id, most))
        try:
            self._records.put(paused)
        except BaseException:
            paused.sealed.discard()
            raise
        return paused

    def _destroy(self, paused: Paused) -> None:
        """The key first: what cannot be removed then is of no use to anybody."""
        self._records.remove(paused.id)
        paused.sealed.discard()

    @asynccontextmanager
    async def _plain(self, size: int) -> AsyncIterator[Path]:
        """A place in memory for so many bytes; a few at a time."""
        async with self._turns:
            place = await asyncio.to_thread(self._shelf.plain, size)
            try:
                yield place.path
            finally:
                await asyncio.to_thread(place.close)


def _described(life: RecordedLife, owner: KeptFor, expires: float) -> Paused:
    """All but where it lies."""
    return Paused(
        id=life.id,
        owner=owner,
        policy=life.policy,
        image=life.spec.image.digest,
        agent=life.spec.agent,
        sealed=NOWHERE,
        expires=expires,
        cpu_seconds=life.usage().cpu_seconds or 0.0,
        lived=life.seconds_lived,
        left=life.seconds_left,
        runs=life.runs,
        languages=tuple(life.languages),
        limits=tuple(life.limits),
    )


def _size(life: RecordedLife) -> int:
    """Bytes that a snapshot will have: its memory, and what it has written."""
    used = life.usage()
    return (used.memory or 0) + (used.disk or 0)


async def whole(work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[object]] | None = None) -> T:
    """Its result. It goes on to its end before a caller who is cancelled is told so, and is undone then."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        failed = task.cancelled() or task.exception() is not None  # asked, so that it counts as heard of
        if undo is not None and not failed:
            await undo(task.result())
        raise
