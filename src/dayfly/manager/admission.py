"""Who may have another sandbox now: caps per tenant and for the machine, and a bounded queue for the latter.

Laws: what was taken is given back once, and then goes to whoever has waited longest and fits; who wants more than there is
blocks nobody. A tenant's own cap makes nobody wait: it is theirs to close something. Nothing waits for longer than ``patience``, and no more than ``waiting``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dayfly.errors import AdmissionRefused, InputError
from dayfly.limits import GIB, Limits

__all__ = ["Admission", "Allowance", "Capacity", "Share", "TenantUsage", "Totals", "available_memory"]

TENANT_RETRY_SECONDS = 10.0
"""What a tenant at its own cap is told to wait: somebody must close a sandbox, which a person does."""

MOST_WAITING = 64
"""Callers in the queue: each holds a request open, and more would wait in vain."""

PATIENCE_SECONDS = 10.0
"""In the queue. Callers and proxies give up after 30 or 60 s, and opening takes some of that."""

MOST_WAITING_OF_TENANT = 8
"""Of the queue's places: one tenant must not keep all others out of it."""

MACHINE_RETRY_SECONDS = 2.0
"""What whoever finds the queue full is told to wait: sandboxes end all the time."""


@dataclass(frozen=True)
class Allowance:
    """What one tenant may have at a time; ``None`` is no cap. ``cpu_seconds_per_day``: see ``Budget``; ``paused_bytes``: on
    the disk."""

    sandboxes: int | None = None
    memory: int | None = None
    cpus: float | None = None
    cpu_seconds_per_day: float | None = None
    paused_bytes: int | None = None


@dataclass(frozen=True)
class Capacity:
    """What all sandboxes together may be promised, spares included, and what the machine must still have.

    The overcommit rule: limits are promises that few sandboxes use up, so their sums may exceed the machine
    (``of_machine``); what is really used is watched, and nothing is opened while less than ``reserve`` bytes are free.
    """

    sandboxes: int
    memory: int
    cpus: float
    reserve: int

    @classmethod
    def of_machine(cls, memory: int, cpus: int, *, overcommit: float, sandboxes: int) -> Capacity:
        """For a machine with so many bytes and cores. A tenth of the memory, and 1 GiB at most, stays free."""
        return cls(sandboxes, int(memory * overcommit), cpus * overcommit, min(memory // 10, GIB))


@dataclass
class Totals:
    """What somebody has."""

    sandboxes: int = 0
    memory: int = 0
    cpus: float = 0.0

    def add(self, share: Share, sign: int) -> None:
        self.sandboxes += sign
        self.memory += sign * share.memory
        self.cpus += sign * share.cpus


@dataclass(eq=False)
class Share:
    """What one sandbox was promised. ``tenant`` is empty for a spare."""

    tenant: str
    memory: int
    cpus: float
    released: bool = False


@dataclass(eq=False)
class _Waiting:
    share: Share
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True)
class TenantUsage:
    """What a tenant has now, and may have; ``None`` is no cap."""

    sandboxes: int
    memory: int
    cpus: float
    cpu_seconds_today: float
    paused_bytes: int
    allowed: Allowance


class Admission:
    """Keeps the sums, on one event loop. ``free_memory`` tells the machine's available bytes."""

    def __init__(
        self,
        capacity: Capacity,
        allowance_of: Callable[[str], Allowance],
        *,
        free_memory: Callable[[], int],
        waiting: int = MOST_WAITING,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.capacity = capacity
        self._allowance_of = allowance_of
        self._free_memory = free_memory
        self._most_waiting = waiting
        self._patience = patience
        self._all = Totals()
        self._tenants: dict[str, Totals] = {}
        self._queue: deque[_Waiting] = deque()

    def held_by(self, tenant: str) -> Totals:
        """What the tenant has now."""
        return self._tenants.get(tenant, Totals())

    async def take(self, tenant: str, limits: Limits) -> Share:
        """Room for a sandbox, at once or after a wait. Raises ``AdmissionRefused``, and ``InputError`` for what never fits."""
        share = Share(tenant, int(limits.memory), limits.cpus)
        self._check_tenant(share)
        if share.memory > self.capacity.memory or share.cpus > self.capacity.cpus:
            raise InputError("no machine of this size can have such a sandbox", remedy="ask for less memory or CPU")
        self._grant()  # who waits comes first, if memory has become free meanwhile
        if self._fits(share):
            self._count(share, 1)
            return share
        if len(self._queue) >= self._most_waiting:
            raise self._full("and too many wait already")
        if sum(one.share.tenant == tenant for one in self._queue) >= MOST_WAITING_OF_TENANT:
            raise self._full("and this tenant waits for several already")
        return await self._wait(share)

    def hand_over(self, share: Share, tenant: str) -> None:
        """A spare's share becomes a tenant's. Raises ``AdmissionRefused``, and then it stays what it was."""
        wanted = Share(tenant, share.memory, share.cpus)
        self._check_tenant(wanted)
        self._count(share, -1)
        share.tenant = tenant
        self._count(share, 1)

    def release(self, share: Share) -> None:
        """Idempotent."""
        if not share.released:
            share.released = True
            self._count(share, -1)
            self._grant()

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _wait(self, share: Share) -> Share:
        mine = _Waiting(share)
        self._queue.append(mine)
        try:
            async with asyncio.timeout(self._patience):
                await mine.granted
        except TimeoutError:
            if not mine.granted.done() or mine.granted.cancelled():
                raise self._full(f"and nothing ended within {self._patience:g} s") from None
        except asyncio.CancelledError:
            if mine.granted.done() and not mine.granted.cancelled():  # granted at the same moment: nobody takes it
                self.release(share)
            raise
        finally:
            if mine in self._queue:
                self._queue.remove(mine)
            self._grant()  # memory may have become free meanwhile, which nobody tells
        return share

    def _grant(self) -> None:
        """To whoever fits, the longest waiting first; one who must wait for more does not block the others."""
        for one in list(self._queue):
            if not one.granted.done() and self._fits(one.share) and self._lacking(one.share) is None:
                self._queue.remove(one)
                self._count(one.share, 1)
                one.granted.set_result(None)

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _count(self, share: Share, sign: int) -> None:
        self._all.add(share, sign)
        totals = self._tenants.setdefault(share.tenant, Totals())
        totals.add(share, sign)
        if not totals.sandboxes:
            del self._tenants[share.tenant]

    def _fits(self, share: Share) -> bool:
        most, now = self.capacity, self._all
        promised = (
            now.sandboxes < most.sandboxes
            and now.memory + share.memory <= most.memory
            and now.cpus + share.cpus <= most.cpus
        )
        return promised and self._free_memory() >= most.reserve

    def _with(self, share: Share, waiting: bool) -> Totals:
        """What the tenant would have with this; with ``waiting``, also with what it waits for."""
        held = self.held_by(share.tenant)
        total = Totals(held.sandboxes, held.memory, held.cpus)
        total.add(share, 1)
        for one in self._queue if waiting else ():
            if one.share.tenant == share.tenant:
                total.add(one.share, 1)
        return total

    def _lacking(self, share: Share, *, waiting: bool = False) -> str | None:
        """Which of the tenant's caps has no room for this."""
        allowed = self._allowance_of(share.tenant)
        for name, value in vars(self._with(share, waiting)).items():
            most = getattr(allowed, name)
            if most is not None and value > most:
                return f"{name}: {value:g} of {most:g}"
        return None

    def _check_tenant(self, share: Share) -> None:
        lacking = self._lacking(share, waiting=True)  # what it waits for will be its own
        if lacking is not None:
            raise AdmissionRefused(
                f"this tenant may not have that much at a time ({lacking})",
                retry_after=TENANT_RETRY_SECONDS,
                remedy="close sandboxes that are not used",
            )

    def _full(self, why: str) -> AdmissionRefused:
        return AdmissionRefused(
            f"this machine has no room for another sandbox, {why}",
            retry_after=MACHINE_RETRY_SECONDS,
            remedy="try again, or close sandboxes that are not used",
        )


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that could be used without swapping, as the kernel estimates (proc(5), MemAvailable)."""
    for line in meminfo.read_text("ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
