"""Tests that take turns: each has its day, and no day is without one."""

from __future__ import annotations

import pytest

from tests import turns


@pytest.mark.parametrize(("number", "days"), [(2, 2), (3, 2), (51, 4), (4, 4)])
def test_each_has_its_day_and_no_day_is_without_one(number: int, days: int) -> None:
    items = [str(one) for one in range(number)]
    found = [
        [one for one in turns.in_turns(items, days, day) if isinstance(one, str)]
        for day in range(740_000, 740_000 + days)
    ]
    assert all(found)
    assert sorted(one for day in found for one in day) == sorted(items)


def test_all_are_there_with_the_long_ones() -> None:
    params = turns.quarter([*"abcdefgh"])
    long = [one for one in params if not isinstance(one, str)]
    assert len(params) == 8
    assert [mark.name for one in long for mark in one.marks] == ["soak"] * 6


def test_fewer_than_days_are_refused() -> None:
    with pytest.raises(AssertionError, match="nothing would run"):
        turns.quarter([1, 2, 3])
