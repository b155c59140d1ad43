"""What is otherwise than in an earlier report: everything that is, and nothing else."""

from __future__ import annotations

import pytest

from dayfly.prove import Condition, Proof, Verdict
from dayfly.prove.drift import Change, changes
from tests.prove.test_proof import BAD, CONTROL, LOST, ROW, proof

REACHED = BAD.model_copy(update={"id": ROW.id})


def test_the_same_is_no_change() -> None:
    assert changes(proof(ROW, CONTROL), proof(ROW, CONTROL)) == ()


def test_what_became_red_comes_first() -> None:
    before, now = proof(LOST, ROW), proof(LOST.model_copy(update={"verdict": Verdict.DENIED, "green": True}), REACHED)
    assert changes(before, now) == (
        Change(ROW.id, "denied", "reached", worse=True),
        Change(LOST.id, "inconclusive", "denied"),
    )


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (proof(ROW), proof(), Change(ROW.id, "denied", "none", worse=True)),  # it is not shown any more
        (proof(REACHED), proof(), Change(ROW.id, "reached", "none")),
        (proof(), proof(ROW), Change(ROW.id, "none", "denied")),
        (proof(), proof(LOST), Change(LOST.id, "none", "inconclusive", worse=True)),
    ],
)
def test_what_only_one_of_them_tried_is_told(before: Proof, now: Proof, change: Change) -> None:
    assert changes(before, now) == (change,)


def test_what_it_stands_on_is_compared_without_its_age() -> None:
    def with_runsc(value: str, state: str = "green") -> Proof:
        return proof(ROW, conditions=(Condition.model_validate({"name": "runsc", "value": value, "state": state}),))

    assert changes(with_runsc("1.0, 3 days old"), with_runsc("1.0, 4 days old")) == ()
    assert changes(with_runsc("1.0, 3 days old"), with_runsc("1.1, 0 days old")) == (
        Change("runsc", "1.0 (green)", "1.1 (green)"),
    )
    assert changes(with_runsc("1.0, 3 days old"), with_runsc("none", "red"))[0].worse


def test_limits_and_the_policy_are_compared() -> None:
    one = proof(ROW)
    limit = one.limits[0].model_copy(update={"enforcement": "watched"})
    other = one.model_copy(update={"limits": (limit,), "policy_digest": "sha256:1"})
    assert {change.what for change in changes(one, other)} == {"limit memory", "policy"}
