"""Sandboxes that nobody has used yet, kept ready for whoever comes next.

Laws: a spare is claimed once and never comes back. Whatever goes wrong with one at its claim, it is destroyed and the
caller gets another. Refilling goes one at a time, and never makes a claim wait.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from dayfly.errors import BoundaryUnusable, DayflyError, PolicyError
from dayfly.manager.mistakes import telling
from dayfly.manager.mould import Mould
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.templates import Template, fits, preloading
from dayfly.policy import Policy
from dayfly.sandbox import Suspended
from dayfly.spec import EndReason

__all__ = ["Spares"]

WARM_SECONDS = 60.0
"""For a spare's kernel to start and to import what the template preloads: pandas takes a second, on a full machine ten."""

CLAIM_SECONDS = 2.0
"""For a spare to take on its policy and environment; it takes 1 ms. One that does not is not healthy."""

RETIREMENT_MARGIN = 60.0
"""Seconds beyond a spare's age until the sandbox's own clocks would end it: retiring comes first, also on a busy machine."""

ADOPTING = max(2, len(os.sched_getaffinity(0)))
"""Claims that are dealt with at a time. Of sixteen that come at once, the first are not to wait until all of them are thawed."""

REFILL_PAUSE = 0.1
"""Seconds after a claim before the next one is opened: opening takes a core, and whoever has just claimed one is about to use
it. Also when it was the last: of sixteen who come at once, none is to wait for a seventeenth."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between attempts to open one when the machine refuses: doubled each time."""


class Spares:
    """The spares of one template, on one running loop. ``failure`` says why there are too few, if the machine refuses.

    Those of a template that preloads are restores of one that was warmed, if ``snapshots`` is where that may be kept.
    """

    def __init__(
        self,
        template: Template,
        open_spare: Callable[[Policy], Awaitable[RecordedLife]],
        restore: Callable[[Policy, Suspended], Awaitable[RecordedLife]] | None = None,
        snapshots: Path | None = None,
    ) -> None:
        self.template = template
        self.failure: DayflyError | None = None
        self._open_spare = open_spare
        self._mould: Mould | None = None
        if template.preload and restore is not None and snapshots is not None:
            self._mould = Mould(snapshots, self._warm_one, partial(self._restored, restore))
        self._ready: deque[tuple[float, RecordedLife]] = deque()  # when it was opened; the oldest first
        self._changed = asyncio.Event()
        self._adopting = asyncio.Semaphore(ADOPTING)
        self._watching: dict[RecordedLife, asyncio.Task[None]] = {}
        self._refill_at = 0.0
        self._renewals = 0
        self._filling = asyncio.ensure_future(self._fill())
        self._filling.add_done_callback(telling("spares are not refilled any more"))

    def __repr__(self) -> str:
        return f"<Spares {self.template.name!r}: {len(self._ready)} of {self.template.spares}>"

    def __len__(self) -> int:
        return len(self._ready)

    def fits(self, policy: Policy) -> bool:
        return fits(self.template.policy, policy)

    async def claim(
        self, policy: Policy, env: Mapping[str, str], take: Callable[[RecordedLife], None] = lambda life: None
    ) -> RecordedLife | None:
        """A spare that is now the caller's, under its policy and with its environment; ``None`` if there is none.

        ``take`` is called before anything is done to it; what it raises leaves the spare where it was.
        """
        while self._ready:
            take(self._ready[0][1])
            _, life = self._ready.popleft()
            self._refill_at = asyncio.get_running_loop().time() + REFILL_PAUSE
            self._release(life)
            if await self._adopted(life, policy, env):
                return life
        return None

    async def _adopted(self, life: RecordedLife, policy: Policy, env: Mapping[str, str]) -> bool:
        try:
            async with self._adopting, asyncio.timeout(CLAIM_SECONDS):
                await life.adopt(policy, env)
        except (DayflyError, TimeoutError):
            await life.kill(EndReason.CRASHED, "it did not answer when it was claimed")
            return False
        except BaseException:  # cancelled: whose it would have been is gone
            await asyncio.shield(life.close())
            raise
        return True

    async def full(self) -> None:
        """Wait until all spares are there."""
        while len(self._ready) < self.template.spares:
            await self._next_change()

    async def renew(self) -> None:
        """What they were made of has changed: end them, also one that is being made, and make others."""
        self._renewals += 1
        lives = [life for _, life in self._ready]
        self._ready.clear()
        for life in lives:
            self._release(life)
        await asyncio.gather(*(life.close() for life in lives))

    async def close(self) -> None:
        """End them all. Raises what ended the refilling before its time."""
        self._filling.cancel()
        await asyncio.wait({self._filling})
        lives = [life for _, life in self._ready]
        self._ready.clear()
        for life in lives:
            self._release(life)
        await asyncio.gather(*(life.close() for life in lives))
        if self._mould is not None:
            await asyncio.to_thread(self._mould.close)
        with suppress(asyncio.CancelledError):
            await self._filling

    # --- filling ------------------------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        pause = FIRST_PAUSE
        while True:
            await self._retire()
            if len(self._ready) >= self.template.spares:
                await self._next_change(self._until_retirement())
            elif (wait := self._refill_at - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(wait)
                self._refill_at = 0.0  # once: many claims in a row must not put it off for ever
            elif await self._add():
                pause = FIRST_PAUSE
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _add(self) -> bool:
        renewals = self._renewals
        try:
            life = await (self._warm_one() if self._mould is None else self._mould.cast())
        except DayflyError as error:
            self.failure = error
            return False
        self.failure = None
        if renewals != self._renewals:
            await life.close()
            return True
        self._ready.append((asyncio.get_running_loop().time(), life))
        self._watching[life] = asyncio.ensure_future(self._watch(life))
        self._tell()
        return True

    async def _warm_one(self) -> RecordedLife:
        return await self._warmed(await self._open_spare(self._patient_policy()), self.template.preload)

    async def _restored(
        self, restore: Callable[[Policy, Suspended], Awaitable[RecordedLife]], suspended: Suspended
    ) -> RecordedLife:
        """Also warmed: what the first run touches is still to be mapped, which takes 10 to 20 ms."""
        return await self._warmed(await restore(self._patient_policy(), suspended), ())

    async def _warmed(self, life: RecordedLife, modules: tuple[str, ...]) -> RecordedLife:
        try:
            async with asyncio.timeout(WARM_SECONDS):
                if "python" in life.languages:
                    await self._warm(life, modules)
        except TimeoutError:
            await life.close()
            raise BoundaryUnusable(
                f"a spare of {self.template.name!r} was not warm within {WARM_SECONDS:g} s",
                remedy="see what the machine is busy with, or preload less",
            ) from None
        except BaseException:
            await asyncio.shield(life.close())
            raise
        return life

    async def _warm(self, life: RecordedLife, modules: tuple[str, ...]) -> None:
        error = await life.warm_up("python", preloading(modules))
        if error is not None:
            raise PolicyError(
                f"the template {self.template.name!r} cannot preload: {error.name}: {error.value:.200}",
                remedy="preload what the image has",
            )

    def _patient_policy(self) -> Policy:
        """The template's, but for its clocks, which start at the claim (spares are retired here, by age), and without a network:
        nobody connects to anywhere before the sandbox is somebody's."""
        policy = self.template.policy
        patience = self.template.spare_seconds + RETIREMENT_MARGIN
        clocks = {"lifetime_seconds": patience, "idle_seconds": patience}
        return policy.model_copy(
            update={"network": "none", "inputs": (), "outputs": (), "limits": policy.limits.model_copy(update=clocks)}
        )

    async def _watch(self, life: RecordedLife) -> None:
        """One that ends by itself is replaced."""
        await life.ended()
        self._ready = deque(one for one in self._ready if one[1] is not life)
        self._watching.pop(life, None)
        self._tell()

    def _release(self, life: RecordedLife) -> None:
        watching = self._watching.pop(life, None)
        if watching is not None:
            watching.cancel()
        self._tell()

    def _until_retirement(self) -> float | None:
        if not self._ready:
            return None
        return max(0.0, self._ready[0][0] + self.template.spare_seconds - asyncio.get_running_loop().time())

    async def _retire(self) -> None:
        while self._ready and self._until_retirement() == 0:
            _, life = self._ready.popleft()
            self._release(life)
            await life.close()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _next_change(self, timeout: float | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
