"""What a proof of this server's own sandboxes is about, and what came of it: values, and who makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dayfly.policy import Policy

__all__ = ["PROOF_MADE", "Made", "Proven", "Prover", "Subject"]

PROOF_MADE = "proof.made"
"""The kind of its entry in the journal."""

MOST_NAMED = 50
"""Probes that are not as they must be, by name in an entry of the journal."""


@dataclass(frozen=True)
class Subject:
    """Sandboxes that are proven together: those of a template, with the modules that it loads; without a name those that callers bring a
    policy for."""

    template: str
    policy: Policy
    preload: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proven:
    """What came of one proof. ``at``: seconds since 1970. ``counts``: probes by verdict. ``red``: the names of probes and conditions that
    are not as they must be. ``report`` is the whole as JSON."""

    green: bool
    at: float
    seconds: float
    chosen: str
    counts: Mapping[str, int]
    red: Sequence[str]
    report: bytes


class Prover(Protocol):
    """Who makes proofs. Both raise ``DayflyError``."""

    def stands_on(self, subject: Subject) -> Mapping[str, str]:
        """What a proof of it holds for: names and versions or digests. May block."""
        ...

    async def prove(self, subject: Subject) -> Proven: ...


@dataclass(frozen=True)
class Made:
    """A proof under an id. ``proven`` is ``None`` where none could be had; then ``failure`` says why."""

    id: str
    subject: Subject
    stands_on: Mapping[str, str]
    at: float
    proven: Proven | None
    failure: str = ""

    @property
    def green(self) -> bool:
        return self.proven is not None and self.proven.green

    def contents(self) -> dict[str, bytes]:
        """Beside the facts: what is too long for them."""
        return {} if self.proven is None else {"report": self.proven.report}

    def facts(self) -> dict[str, object]:
        """For the journal."""
        found: dict[str, object] = {
            "proof": self.id,
            "template": self.subject.template or None,
            "green": self.green,
            "stands_on": dict(self.stands_on),
        }
        if self.proven is None:
            return {**found, "failure": self.failure}
        one = self.proven
        return {
            **found,
            "set": one.chosen,
            "seconds": one.seconds,
            "counts": dict(one.counts),
            "red": list(one.red[:MOST_NAMED]),
            "reds": len(one.red),
        }
