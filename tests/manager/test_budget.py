"""CPU seconds of tenants and days."""

from __future__ import annotations

import pytest

from dayfly.errors import AdmissionRefused, BudgetSpent
from dayfly.manager.budget import DAY, Budget

NOON = 20_000 * DAY + DAY / 2


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


def test_what_sandboxes_use_adds_up_for_their_tenant() -> None:
    budget = Budget(Clock(), lambda tenant: 10.0)
    budget.charge("t", "a", 3.0)
    budget.charge("t", "a", 4.0)  # of its whole life
    budget.charge("t", "b", 5.0)
    budget.charge("u", "c", 1.0)
    assert (budget.spent("t"), budget.spent("u"), budget.spent("v")) == (9.0, 1.0, 0.0)
    budget.check("t")


def test_a_spent_budget_refuses_until_the_next_day_of_utc() -> None:
    clock = Clock()
    budget = Budget(clock, lambda tenant: 10.0)
    budget.charge("t", "a", 10.0)
    with pytest.raises(BudgetSpent, match="10 CPU seconds") as refused:
        budget.check("t")
    assert refused.value.retry_after == DAY / 2
    assert isinstance(refused.value, AdmissionRefused)
    budget.check("u")
    clock.now = NOON + DAY / 2 - 0.001
    assert budget.is_spent("t")
    clock.now = NOON + DAY / 2
    budget.check("t")


def test_a_sandbox_that_lives_on_is_charged_for_the_new_day_only_with_what_is_new() -> None:
    clock = Clock()
    budget = Budget(clock, lambda tenant: 10.0)
    budget.charge("t", "a", 10.0)
    clock.now += DAY
    budget.charge("t", "a", 12.0)
    assert budget.spent("t") == 2.0


def test_a_count_that_goes_back_is_no_gift() -> None:
    budget = Budget(Clock(), lambda tenant: None)
    budget.charge("t", "a", 5.0)
    budget.charge("t", "a", 0.0)  # what cannot be measured any more
    budget.charge("t", "a", 5.0)
    assert budget.spent("t") == 5.0
    assert not budget.is_spent("t")
    budget.forget("a")
    budget.charge("t", "a", 5.0)
    assert budget.spent("t") == 10.0, "another sandbox"


def test_a_clock_that_jumps_gives_one_new_day_and_locks_nobody_out() -> None:
    clock = Clock()
    budget = Budget(clock, lambda tenant: 10.0)
    budget.charge("t", "a", 10.0)
    clock.now -= 3 * DAY
    assert budget.is_spent("t"), "set back, it brings no spent day back"
    clock.now += DAY
    budget.check("t")
    clock.now += 3650 * DAY
    budget.charge("t", "a", 20.0)
    clock.now -= 3650 * DAY
    assert budget.is_spent("t")
    clock.now += DAY
    budget.check("t")
