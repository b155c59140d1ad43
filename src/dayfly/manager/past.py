"""What is remembered of a sandbox that has ended: some hundred bytes, where a live one has 30 kB of this process."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

from dayfly.boundaries.base import CellEnd
from dayfly.errors import SandboxEnded
from dayfly.manager.paused import Paused
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.spec import EndReason, LimitReport, Usage

__all__ = ["PastLife"]

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PastLife:
    """In the place of a ``Life``: answers what can still be asked. To everything else it says that it has ended."""

    id: str
    policy: Policy
    limits: Sequence[LimitReport]
    languages: Sequence[str]
    end: CellEnd
    used: Usage
    version: str | None
    unsaved: str | None = None

    @classmethod
    def of(cls, life: Life | Paused | PastLife, end: CellEnd) -> PastLife:
        """Of one that has just ended."""
        if isinstance(life, PastLife):
            return life
        limits, languages = _shared((*life.limits,)), _shared((*life.languages,))
        if isinstance(life, Paused):
            used, version = Usage(cpu_seconds=life.cpu_seconds), None
        else:
            used, version = life.usage(), (life.explain().get("runsc") or {}).get("version")
        unsaved = None if isinstance(life, Paused) else life.unsaved
        return cls(life.id, _shared(life.policy), limits, languages, end, used, version, unsaved)

    @property
    def end_reason(self) -> EndReason:
        return self.end.reason

    @property
    def end_detail(self) -> str:
        return self.end.detail

    @property
    def seconds_left(self) -> float:
        return 0.0

    def usage(self) -> Usage:
        return self.used

    def explain(self) -> Mapping[str, Any]:
        """What there is to say of it still."""
        return {"boundary": self.policy.boundary, "runsc": {"version": self.version}}

    async def ended(self) -> CellEnd:
        return self.end

    async def close(self) -> None:
        """Nothing is left of it already."""

    async def kill(self, reason: EndReason, detail: str) -> CellEnd:
        """Nothing is left of it already."""
        return self.end

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python's own questions
            raise AttributeError(name)
        raise SandboxEnded(self.end.reason.value, self.end.detail)


def _shared(value: T) -> T:
    """The same object for equal ones: most sandboxes of a server have the same policy and limits."""
    return cast(T, _first(value))


@lru_cache(maxsize=64)
def _first(value: Hashable) -> Hashable:
    return value
