"""What is too long for every day has its turn: a quarter of it each day, all of it with ``make test-all``."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TypeVar

import pytest

__all__ = ["in_turn"]

DAYS = 4

T = TypeVar("T")


def in_turn(items: Iterable[T]) -> list[object]:
    """As parameters; those whose turn it is not are marked ``soak``."""
    today = datetime.datetime.now(datetime.UTC).date().toordinal() % DAYS
    return [
        item if number % DAYS == today else pytest.param(item, marks=pytest.mark.soak)
        for number, item in enumerate(items)
    ]
