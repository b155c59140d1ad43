"""The files that a policy's ``outputs`` name, as objects. What the sandbox offers is hostile: only regular files, by names that are keys
as they are, within bounds; what is left out is said.

Nobody follows a link on purpose. Code that exchanges a file for one while it is read makes the agent read another file of this very
sandbox: there is nothing else to read there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from dayfly.bucket.client import BucketClient, Dial
from dayfly.bucket.names import BadName, key_for
from dayfly.errors import DayflyError, SandboxFileError, StoreFailed
from dayfly.limits import GIB, KIB, MIB, size_text
from dayfly.manager.copied import Tale, printable
from dayfly.manager.courier import AT_ONCE, admitted, all_of
from dayfly.manager.offered import Found, Offered
from dayfly.manager.outlet import Outlet
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Output
from dayfly.saved import SavedOutputs

__all__ = ["LAST_SECONDS", "OUTPUT_SECONDS", "Saving"]

OUTPUT_SECONDS = 120.0
"""For all outputs of a sandbox together, on demand. Whoever asks over HTTP waits for them, for 180 s at most."""

LAST_SECONDS = 30.0
"""The same at the sandbox's end, by which it may outlive its clocks: nobody asks for it any more, and its memory is taken."""

LARGEST_PUT = 5 * GIB
"""Of one object that is put at once, as Amazon's S3 has it."""

HEADS = 1 * KIB
"""Bytes of a request and its answer beside the content, which are counted for ``max_bytes`` too."""

IN_MEMORY = 1 * MIB
"""A file up to this is read whole before it is put, so that the store can check it; ``AT_ONCE`` of them are held."""


class Saving:
    """Of one sandbox, from its first save to its last: one at a time."""

    def __init__(self, life: RecordedLife, outlet: Outlet) -> None:
        self._life = life
        self._outlet = outlet
        self._turn = asyncio.Lock()

    async def on_demand(self, *, last: bool = False) -> SavedOutputs:
        """``last``: when this is done, they are not saved again at the sandbox's end. Raises ``StoreFailed`` where the store fails or it
        takes too long, ``PolicyError``, ``HostError``, ``SandboxEnded``. What was put before that is there."""
        one = _Save(self._life, self._outlet)
        async with self._turn:
            await one.run(OUTPUT_SECONDS)
        if last:
            self._life.last_act = None
        return one.result

    async def at_last(self) -> None:
        """Raises nothing: what went wrong is in the journal, and in ``life.unsaved``."""
        one = _Save(self._life, self._outlet)
        self._life.unsaved = "they were still being saved when the sandbox ended"
        with suppress(DayflyError, TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._turn.acquire()
            try:
                await one.run(LAST_SECONDS)
            finally:
                self._life.unsaved = one.result.problem
                self._turn.release()


@dataclass
class _Batch:
    """One output's files that are on their way. ``room``: bytes that may still be saved; ``left``: of its ``max_bytes``."""

    one: Output
    dial: Dial
    work: Iterator[Found]
    tale: Tale
    room: int
    left: int | None

    def take(self, size: int) -> None:
        """Raises ``BadName``."""
        most = min(LARGEST_PUT, self.room, LARGEST_PUT if self.left is None else self.left - HEADS)
        if size > most:
            raise BadName(f"is larger than the {size_text(max(0, most))} that may still be saved")
        self.room -= size
        if self.left is not None:
            self.left -= size + HEADS


class _Save:
    def __init__(self, life: RecordedLife, outlet: Outlet) -> None:
        self._life = life
        self._outlet = outlet
        self._offered = Offered(life)
        self._keys: list[str] = []
        self._size = 0
        self._problem: str | None = None
        self._rows: list[dict[str, Any]] = []

    @property
    def result(self) -> SavedOutputs:
        out = self._offered
        return SavedOutputs(
            tuple(sorted(self._keys)), self._size, tuple(out.left_out), out.left_out_count, self._problem
        )

    async def run(self, seconds: float) -> None:
        """Written down however it ends. Raises ``StoreFailed`` and others."""
        self._problem = "it was cut short by the sandbox's end"
        try:
            async with asyncio.timeout(seconds):
                for index, one in enumerate(self._life.policy.outputs):
                    await self._output(index, one)
            self._problem = None
        except TimeoutError:
            self._problem = f"the outputs were not saved within {seconds:g} s"
            raise StoreFailed(self._problem, remedy="save fewer, or one archive; save_outputs() in between") from None
        except DayflyError as error:
            self._problem = error.message
            raise
        finally:
            self._tell()

    def _tell(self) -> None:
        done = self.result
        left_out = [[printable(one.path), one.reason] for one in done.left_out[:_ROWS]]
        facts = {
            "objects": len(done.keys),
            "bytes": done.size,
            "left_out": left_out,
            "left_out_count": done.left_out_count,
        }
        problem = None if done.problem is None else printable(done.problem, _LONGEST_PROBLEM)
        self._life.tell_saved({**facts, "problem": problem, "outputs": self._rows})

    async def _output(self, index: int, one: Output) -> None:
        found = await self._offered.below(one)
        tale = Tale(one)
        try:
            if found:
                guest = f"{self._life.id}/outputs/{index}"
                async with admitted(self._outlet, guest, one.rule, self._life.owner, self._life.copying) as dial:
                    most = self._life.policy.limits.disk - self._size
                    batch = _Batch(one, dial, iter(found), tale, most, one.max_bytes)
                    await all_of([self._carry(batch) for _ in range(min(AT_ONCE, len(found)))])
        finally:
            self._rows.append(tale.facts)

    async def _carry(self, batch: _Batch) -> None:
        """One after another, as long as there are any."""
        async with BucketClient(batch.one, batch.dial) as client:
            for file in batch.work:
                try:
                    key = _judged(batch, file)
                    await self._put(client, key, file)
                except BadName as error:
                    self._offered.leave_out(file.path, str(error))
                except SandboxFileError as error:
                    self._offered.leave_out(file.path, f"cannot be read: {error.problem.value}")
                else:
                    batch.tale.add(key, file.size)
                    self._keys.append(key)
                    self._size += file.size

    async def _put(self, client: BucketClient, key: str, file: Found) -> None:
        """Raises ``BadName`` for a file that changes, and ``StoreFailed``."""
        if file.size <= IN_MEMORY:
            await client.put(key, b"".join([piece async for piece in self._content(file)]))
            return
        async with aclosing(self._content(file)) as content:
            await client.put_stream(key, content, file.size)

    async def _content(self, file: Found) -> AsyncGenerator[bytes]:
        """As long as it was when it was listed: what has been added since is not there yet. Raises ``BadName``."""
        left = file.size
        if not left:
            return
        async with aclosing(self._life.read_raw(file.path, file.size)) as pieces:  # type: ignore[type-var]  # a generator
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    break
                yield piece
        if left:
            raise BadName("has changed while it was read")


def _judged(batch: _Batch, file: Found) -> str:
    """Its key; its bytes are counted. Raises ``BadName``."""
    key = key_for(batch.one.prefix, file.below)
    batch.take(file.size)
    return key


_ROWS = 20
"""Of what was left out, in an entry of the journal."""

_LONGEST_PROBLEM = 1000
"""Characters of what went wrong, there."""
