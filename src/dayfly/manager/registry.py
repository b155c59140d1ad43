"""Which sandbox is whose. What is another tenant's cannot be told from what does not exist."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dayfly.errors import NoSuchSandbox
from dayfly.manager.past import PastLife
from dayfly.manager.recorded import RecordedLife
from dayfly.spec import EndReason

__all__ = ["Registration", "Registry"]

KEPT_SECONDS = 3600.0
"""How long an ended sandbox can still be asked why it ended."""

MAX_ENDED = 10_000
"""Ended ones that are remembered at most; the oldest go first."""


@dataclass(eq=False)
class Registration:
    """One sandbox and whose it is. ``created`` is in seconds since 1970; ``conversation`` and ``template`` if it has one."""

    life: RecordedLife | PastLife
    tenant: str
    conversation: str | None = None
    template: str | None = None
    ended: float | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    now: Callable[[], float] = field(default=time.time, repr=False)
    created: float = field(init=False)

    def __post_init__(self) -> None:
        self.created = self.now()

    @property
    def id(self) -> str:
        return self.life.id

    @property
    def state(self) -> str:
        """``ready`` or ``ended``."""
        return "ready" if self.life.end_reason is None else "ended"

    @property
    def expires(self) -> float:
        """When it ends at the latest, in seconds since 1970; of an ended one, when it did."""
        return self.ended if self.ended is not None else self.now() + self.life.seconds_left

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has used, as far as its boundary can tell."""
        return self.life.usage().cpu_seconds or 0.0

    @property
    def end_reason(self) -> EndReason | None:
        return self.life.end_reason

    @property
    def end_detail(self) -> str:
        return self.life.end_detail


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
        registration.ended = self._now()
        if self._live.pop(registration.id, None) is not None:
            self._ended[registration.id] = (self._clock() + KEPT_SECONDS, registration)
        self._forget()

    def find(self, tenant: str, sandbox: str) -> Registration:
        """Raises ``NoSuchSandbox``."""
        self._forget()
        found = self._live.get(sandbox) or self._ended.get(sandbox, (0.0, None))[1]
        if found is None or found.tenant != tenant:
            raise NoSuchSandbox(f"no sandbox {sandbox!a:.80}", remedy="open a new one")
        return found

    def all(self, tenant: str | None = None) -> Sequence[Registration]:
        """Of one tenant or of all, the ended ones first."""
        self._forget()
        found = (*(one for _, one in self._ended.values()), *self._live.values())
        return [one for one in found if tenant is None or one.tenant == tenant]

    def live(self) -> Sequence[Registration]:
        return list(self._live.values())

    def _forget(self) -> None:
        while self._ended:
            oldest, (until, _) = next(iter(self._ended.items()))
            if self._clock() <= until and len(self._ended) <= MAX_ENDED:
                return
            del self._ended[oldest]
