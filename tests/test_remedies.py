"""Whoever is told that this machine cannot do something is told what to do about it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dayfly import errors
from dayfly.errors import DayflyError, Fault

SOURCE = Path(errors.__file__).parent


@cache
def of_the_host() -> frozenset[str]:
    """The public errors that are this machine's, but those that bring a remedy of their own."""
    kinds = (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, DayflyError))
    mine = (one for one in kinds if one.fault is Fault.HOST)
    return frozenset(one.__name__ for one in mine if "remedy" in inspect.signature(one).parameters)


def without_remedy(source: str) -> Iterator[tuple[int, str]]:
    """Line and class of every such error that is made without a ``remedy``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in of_the_host():
            given = [one.arg for one in node.keywords]
            if "remedy" not in given and None not in given:
                yield node.lineno, node.func.id


def test_an_error_of_the_host_says_what_to_do() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}": name
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in without_remedy(path.read_text())
    }
    assert found == {}


def test_one_without_a_remedy_is_found() -> None:
    source = "def f():\n    raise HostError('no')\n    raise HostError('no', remedy='do')\n    raise InputError('no')\n"
    assert list(without_remedy(source)) == [(2, "HostError")]
    assert {"HostError", "BoundaryUnusable", "OutOfSpace"} <= of_the_host()
    assert "SnapshotMismatch" not in of_the_host()
