"""Which sandbox is whose. What is another tenant's cannot be told from what does not exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dayfly.boundaries.base import CellEnd
from dayfly.errors import NoSuchSandbox, SandboxEnded
from dayfly.manager.past import PastLife
from dayfly.manager.paused import Paused
from dayfly.manager.recorded import RecordedLife
from dayfly.policy import Policy
from dayfly.spec import EndReason, LimitReport

__all__ = ["Registration", "Registry"]

KEPT_SECONDS = 3600.0
"""How long an ended sandbox can still be asked why it ended."""

MAX_ENDED = 10_000
"""Ended ones that are remembered at most; the oldest go first."""


@dataclass(eq=False)
class Registration:
    """One sandbox and whose it is: a life, or what is remembered of it while it is paused.

    ``created`` is in seconds since 1970; ``conversation`` and ``template`` if it has one. ``changing`` is held by whoever
    pauses, resumes, copies or ends it.
    """

    held: RecordedLife | Paused | PastLife
    tenant: str
    conversation: str | None = None
    template: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    now: Callable[[], float] = field(default=time.time, repr=False)
    created: float = 0.0
    ended_at: float | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _gone: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def __post_init__(self) -> None:
        self.created = self.created or self.now()

    @property
    def id(self) -> str:
        return self.held.id

    @property
    def life(self) -> RecordedLife | PastLife:
        """Raises ``SandboxEnded`` while it is paused."""
        if isinstance(self.held, Paused):
            raise SandboxEnded(EndReason.PAUSED.value)
        return self.held

    @property
    def paused(self) -> bool:
        return isinstance(self.held, Paused) or self.held.end_reason is EndReason.PAUSED

    @property
    def state(self) -> str:
        """``ready``, ``paused`` or ``ended``."""
        return "paused" if self.paused else "ready" if self.end_reason is None else "ended"

    def require_live(self) -> None:
        """Raises ``SandboxEnded``; not for a paused one."""
        if self.end_reason is not None:
            raise SandboxEnded(self.end_reason.value, self.end_detail)

    @property
    def expires(self) -> float:
        """When it ends at the latest, in seconds since 1970; of an ended one, when it did."""
        if self.ended_at is not None:
            return self.ended_at
        return self.held.expires if isinstance(self.held, Paused) else self.now() + self.held.seconds_left

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has used, as far as its boundary can tell."""
        return self.held.cpu_seconds if isinstance(self.held, Paused) else self.held.usage().cpu_seconds or 0.0

    @property
    def policy(self) -> Policy:
        return self.held.policy

    @property
    def limits(self) -> Sequence[LimitReport]:
        return self.held.limits

    @property
    def languages(self) -> Sequence[str]:
        return self.held.languages

    @property
    def end_reason(self) -> EndReason | None:
        """``None`` of a paused one: it can go on."""
        return None if isinstance(self.held, Paused) or self.paused else self.held.end_reason

    @property
    def end_detail(self) -> str:
        return "" if isinstance(self.held, Paused) else self.held.end_detail

    @property
    def unsaved(self) -> str | None:
        """Why its outputs were not saved at its end."""
        return None if isinstance(self.held, Paused) else self.held.unsaved

    def end(self, end: CellEnd) -> None:
        """It is gone, and not only paused: only little is remembered of it."""
        self.held, self.env = PastLife.of(self.held, end), {}
        self.ended_at = self.now()
        self._gone.set()

    async def ended(self) -> CellEnd:
        """Wait for the end and say why; a pause is none."""
        await self._gone.wait()
        assert isinstance(self.held, PastLife)
        return self.held.end


class Registry:
    """All sandboxes of all tenants, the ended ones for a while: by ``clock``, which is monotonic. ``now`` is the wall clock
    in seconds since 1970."""

    def __init__(self, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._clock = clock
        self._live: dict[str, Registration] = {}
        self._ended: dict[str, tuple[float, Registration]] = {}  # until when; in the order of their ends

    def add(self, registration: Registration) -> None:
        self._live[registration.id] = registration

    def ended(self, registration: Registration) -> None:
        """It has ended just now."""
        if self._live.pop(registration.id, None) is not None:
            self._ended[registration.id] = (self._clock() + KEPT_SECONDS, registration)
        self._forget()

    def find(self, tenant: str, sandbox: str) -> Registration:
        """Raises ``NoSuchSandbox``."""
        self._forget()
        found = self._live.get(sandbox) or self._ended.get(sandbox, (0.0, None))[1]
        if found is None or found.tenant != tenant:
            raise NoSuchSandbox.of(sandbox)
        return found

    def all(self, tenant: str | None = None) -> Sequence[Registration]:
        """Of one tenant or of all, the ended ones first, the paused ones too."""
        self._forget()
        found = (*(one for _, one in self._ended.values()), *self._live.values())
        return [one for one in found if tenant is None or one.tenant == tenant]

    def live(self) -> Sequence[Registration]:
        """Those that have a life."""
        return [one for one in self._live.values() if not one.paused]

    def paused(self) -> Sequence[Registration]:
        return [one for one in self._live.values() if one.paused]

    def _forget(self) -> None:
        while self._ended:
            oldest, (until, _) = next(iter(self._ended.items()))
            if self._clock() <= until and len(self._ended) <= MAX_ENDED:
                return
            del self._ended[oldest]
