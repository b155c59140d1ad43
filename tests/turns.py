"""Variants of one and the same check take turns: one of them each day, all with ``make test-all``. Never the only test of a promise."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TypeVar

import pytest

__all__ = ["one_a_day"]

T = TypeVar("T")


def one_a_day(variants: Sequence[T]) -> list[object]:
    """As parameters, of a test or a fixture; those whose day it is not are marked ``soak``."""
    today = datetime.datetime.now(datetime.UTC).date().toordinal() % len(variants)
    return [
        variant if number == today else pytest.param(variant, marks=pytest.mark.soak)
        for number, variant in enumerate(variants)
    ]
