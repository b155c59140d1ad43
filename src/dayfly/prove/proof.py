"""The report: what was attempted, on what, when, and how it was judged. A value that goes to JSON and back."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import Counter
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dayfly.policy import Policy
from dayfly.prove.trials import Outcome
from dayfly.prove.verdict import Basis, Verdict

__all__ = ["QUESTIONS", "Condition", "Kept", "Proof", "Row", "Subject", "policy_digest", "row_of"]

QUESTIONS = {
    1: "Does a name that the operator controls get resolved?",
    2: "Does a metadata service answer?",
    3: "Does a cloud API answer outside of what was allowed?",
    4: "Does another tenant's conversation answer?",
}
"""What a buyer of sandboxes should ask, in this order."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(_Value):
    """One probe's outcome."""

    id: str
    title: str
    property: str
    severity: str
    place: str
    expected: Literal["denied", "allowed"]
    verdict: Verdict
    green: bool
    why: str
    seen_by: tuple[str, ...]
    source: str
    question: int | None = None
    basis: Basis = Basis.CLAIMED


class Condition(_Value):
    """Something about this machine or what runs on it. ``state``: green, amber (known and worth a look) or red."""

    name: str
    value: str
    state: Literal["green", "amber", "red"] = "green"
    remedy: str = ""


class Kept(_Value):
    """One limit of the policy, and how it is kept."""

    name: str
    value: float
    enforcement: str
    how: str


class Subject(_Value):
    """Somebody else's sandbox. ``version``: as it says itself. ``configured``: how it was run; ``source``: who recommends that. ``place``: where."""

    name: str
    version: str
    configured: str
    source: str
    place: str


class Proof(_Value):
    """One run of the probes. ``at`` is UTC. ``target``: whose sandbox it was; none: dayfly's own."""

    at: datetime.datetime
    seconds: float
    set: Literal["quick", "full"]
    image: str
    policy_digest: str
    conditions: tuple[Condition, ...]
    limits: tuple[Kept, ...]
    rows: tuple[Row, ...]
    target: Subject | None = None

    @property
    def green(self) -> bool:
        """Everything as it must be: no probe else, and no condition red. Without a row it is not."""
        return bool(self.rows) and all(row.green for row in self.rows) and not self.red_conditions

    @property
    def red_conditions(self) -> tuple[Condition, ...]:
        return tuple(one for one in self.conditions if one.state == "red")

    @property
    def red(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.green)

    def count(self) -> Counter[Verdict]:
        return Counter(row.verdict for row in self.rows)

    def answer(self, question: int) -> tuple[Literal["no", "yes", "not shown"], tuple[Row, ...]]:
        """To one of ``QUESTIONS``, by its probes. "not shown" where one of them is inconclusive or there is none."""
        rows = tuple(row for row in self.rows if row.question == question and row.expected == "denied")
        if any(row.verdict is Verdict.REACHED for row in rows):
            return "yes", rows
        if not rows or any(row.verdict is Verdict.INCONCLUSIVE for row in rows):
            return "not shown", rows
        return "no", rows


def policy_digest(policy: Policy) -> str:
    """SHA-256 over its JSON."""
    text = json.dumps(policy.model_dump(mode="json"), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def row_of(outcome: Outcome) -> Row:
    probe, judgement = outcome.probe, outcome.judgement
    return Row(
        id=probe.id,
        title=probe.title,
        property=probe.property.value,
        severity=probe.severity.value,
        place=probe.place.value,
        expected=probe.expected.value,
        verdict=judgement.verdict,
        green=judgement.green,
        why=judgement.why,
        seen_by=probe.seen_by,
        source=probe.source,
        question=probe.question,
        basis=judgement.basis,
    )
