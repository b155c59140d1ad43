"""A measurement in a process of its own: what this one has done and holds is no part of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

__all__ = ["apart"]

P = ParamSpec("P")
T = TypeVar("T")


def apart(measure: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """``measure`` is found by its name there: a function of a module."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *args, **kwargs).result()
