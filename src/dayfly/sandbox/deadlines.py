"""When a sandbox must end because of time: a pure function over a clock's reading. Seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass

from dayfly.limits import Limits
from dayfly.spec import EndReason

__all__ = ["PING_SECONDS", "SILENCE_SECONDS", "STARVED_SILENCE_SECONDS", "Deadlines", "Due"]

SILENCE_SECONDS = 5.0
"""An agent that says nothing for so long while it is asked something is not an honest one: the cell had time to run."""

STARVED_SILENCE_SECONDS = 30.0
"""The same where the cell's CPU was in use meanwhile: 256 spinning processes starve an honest agent."""

PING_SECONDS = 2.0
"""Silence after which the agent is asked for a sign of life."""


@dataclass(frozen=True)
class Due:
    """What must happen now (``end``, ``ping``), and when to look again."""

    end: EndReason | None = None
    detail: str = ""
    ping: bool = False
    look_again: float = 0.0


@dataclass
class Deadlines:
    """Times of one sandbox. ``calls`` counts calls under way; a sandbox with one is not idle."""

    limits: Limits
    opened: float
    last_call: float
    calls: int = 0
    end_of_life: float = 0.0

    def __post_init__(self) -> None:
        self.end_of_life = self.end_of_life or self.opened + self.limits.lifetime_seconds

    def due(self, now: float, *, last_heard: float, starved: bool) -> Due:
        """What must happen at ``now``. ``starved``: the cell's CPU was in use since the agent was last heard."""
        end_of_life = self.end_of_life
        if now >= end_of_life:
            return Due(EndReason.MAX_LIFETIME, f"{end_of_life - self.opened:g} s are over")
        if not self.calls:
            idle_end = self.last_call + self.limits.idle_seconds
            if now >= idle_end:
                return Due(EndReason.IDLE_TIMEOUT, f"no call for {self.limits.idle_seconds:g} s")
            return Due(look_again=min(end_of_life, idle_end))
        silent_since = max(last_heard, self.last_call)
        patience = STARVED_SILENCE_SECONDS if starved else SILENCE_SECONDS
        if now - silent_since >= patience:
            return Due(EndReason.UNRESPONSIVE, f"the agent was silent for {now - silent_since:.1f} s")
        ping = now - silent_since >= PING_SECONDS
        return Due(ping=ping, look_again=min(end_of_life, now + 0.5 if ping else silent_since + PING_SECONDS))
