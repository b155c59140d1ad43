"""CPU seconds of each tenant and day: so that a loop ends in a bounded failure, and not in a bill. Pure accounting.

A day is a day of UTC. A sandbox is charged for what it used since it was last looked at, on the day of the look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dayfly.errors import BudgetSpent

__all__ = ["DAY", "Budget"]

DAY = 86400.0
"""Seconds."""


@dataclass
class Budget:
    """``now`` is the wall clock in seconds since 1970; ``allowed`` gives a tenant's seconds a day, ``None`` for no cap."""

    now: Callable[[], float]
    allowed: Callable[[str], float | None]
    _day: int = 0
    _spent: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, float] = field(default_factory=dict)  # by sandbox: CPU seconds at the last look

    def spent(self, tenant: str) -> float:
        """CPU seconds of today."""
        self._turn_page()
        return self._spent.get(tenant, 0.0)

    def charge(self, tenant: str, sandbox: str, cpu_seconds: float) -> None:
        """``cpu_seconds`` is what the sandbox used in its whole life, as its boundary counts it."""
        self._turn_page()
        new = max(0.0, cpu_seconds - self._seen.get(sandbox, 0.0))
        self._seen[sandbox] = max(cpu_seconds, self._seen.get(sandbox, 0.0))
        self._spent[tenant] = self._spent.get(tenant, 0.0) + new

    def know(self, sandbox: str, cpu_seconds: float) -> None:
        """It has used so much before, and was charged for it."""
        self._seen[sandbox] = cpu_seconds

    def restore(self, spent: Mapping[str, float]) -> None:
        """CPU seconds of today, by tenant, that another process has counted."""
        self._turn_page()
        for tenant, seconds in spent.items():
            self._spent[tenant] = self._spent.get(tenant, 0.0) + seconds

    def forget(self, sandbox: str) -> None:
        """It has ended and was charged for the last time."""
        self._seen.pop(sandbox, None)

    def is_spent(self, tenant: str) -> bool:
        most = self.allowed(tenant)
        return most is not None and self.spent(tenant) >= most

    def check(self, tenant: str) -> None:
        """Raises ``BudgetSpent``."""
        if self.is_spent(tenant):
            raise BudgetSpent(
                f"the {self.allowed(tenant):g} CPU seconds of this tenant and day are used up",
                retry_after=DAY - self.now() % DAY,
                remedy="wait for the next day (UTC), or have the budget raised",
            )

    def _turn_page(self) -> None:
        """A clock that is set back brings no spent day back: what was used then counts on."""
        day = int(self.now() // DAY)
        if day > self._day:
            self._spent.clear()
        self._day = day
