"""What is too much for every day takes turns: a part of it each day, all of it with ``make test-all``. Never the only test of a promise."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["in_turns", "one_a_day", "quarter"]

T = TypeVar("T")


def one_a_day(variants: Sequence[T]) -> list[object]:
    """Variants of one and the same check, as parameters of a test or a fixture."""
    return in_turns(variants, len(variants))


def quarter(items: Sequence[T]) -> list[object]:
    """Of many, as parameters."""
    return in_turns(items, 4)


def in_turns(items: Sequence[T], days: int, day: int | None = None) -> list[object]:
    """All of them in so many days, of which there are no more than items. Those whose ``day`` it is not (of the calendar; today) are marked
    ``soak``."""
    assert len(items) >= days, "nothing would run on some of the days"
    today = datetime.datetime.now(datetime.UTC).date().toordinal() if day is None else day
    return [
        item if number % days == today % days else pytest.param(item, marks=pytest.mark.soak)
        for number, item in enumerate(items)
    ]
