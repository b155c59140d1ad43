"""Variants of one and the same check take turns: some each day, all with ``make test-all``. Never the only test of a promise."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["in_turns", "one_a_day"]

T = TypeVar("T")


def one_a_day(variants: Sequence[T]) -> list[object]:
    """As parameters, of a test or a fixture; those whose day it is not are marked ``soak``."""
    return in_turns(variants, len(variants))


def in_turns(items: Sequence[T], days: int) -> list[object]:
    """The same, where all of them take so many days. There must be as many at least."""
    assert len(items) >= days, "nothing would run on some of the days"
    today = datetime.datetime.now(datetime.UTC).date().toordinal() % days
    return [
        item if number % days == today else pytest.param(item, marks=pytest.mark.soak)
        for number, item in enumerate(items)
    ]
