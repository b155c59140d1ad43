"""docs/coverage.md is true: a line for every row of the catalogue of attacks, and what it names exists."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from dayfly.prove import ALL

TESTS = Path(__file__).parent.parent
PAGE = (TESTS.parent / "docs/coverage.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([^`]+)`")
OTHERWISE = re.compile(r"(does not apply|no such row|open): \w.{8,}")
"""How a row says why nothing holds it."""

ROWS = 201
ROWS_BY_NUMBER = {int(number): held for number, _, held in ROW.findall(PAGE)}
PROBES = [probe.id for probe in ALL]


def test_every_row_is_there_once() -> None:
    assert [int(number) for number, _, _ in ROW.findall(PAGE)] == list(range(1, ROWS + 1))


@pytest.mark.parametrize("row", range(1, ROWS + 1))
def test_what_holds_a_row_exists_or_the_reason_is_said(row: int) -> None:
    held = ROWS_BY_NUMBER[row]
    names = NAMED.findall(held)
    assert names or OTHERWISE.match(held), held
    assert [name for name in names if not exists(name)] == []


def test_every_probe_is_named() -> None:
    """By a row, or at the end among dayfly's own."""
    named = NAMED.findall(PAGE)
    assert [one for one in PROBES if not any(fnmatchcase(one, name) for name in named)] == []


def test_the_numbers_at_the_top_are_those_of_the_table() -> None:
    assert counted() in PAGE, counted()


def counted() -> str:
    """In words, as the page has it."""
    kinds = [kind(held) for held in ROWS_BY_NUMBER.values()]
    words = (
        "held by probes",
        "by probes and tests",
        "by tests",
        "do not apply",
        "have no text",
        "are open",
    )
    return "; ".join(f"{kinds.count(word)} {word}" for word in words)


def kind(held: str) -> str:
    if (why := OTHERWISE.match(held)) is not None:
        return {"does not apply": "do not apply", "no such row": "have no text", "open": "are open"}[why[1]]
    tests = ["::" in name for name in NAMED.findall(held)]
    return "by probes and tests" if len(set(tests)) == 2 else "by tests" if tests[0] else "held by probes"


def exists(name: str) -> bool:
    """A test by its node id below ``tests``, or probes by a pattern of ids."""
    path, colons, test = name.partition("::")
    if colons:
        return test in names_in(TESTS / path)
    return any(fnmatchcase(one, name) for one in PROBES)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Read, never imported."""
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize(
    "name",
    ["boundary.none", "boundary", "prove/test_coverage.py::exists", "prove/test_coverage.py::test_none", "prove/none.py::test_it", "../x"],
)  # fmt: skip
def test_what_does_not_exist_is_found(name: str) -> None:
    """The control."""
    assert not exists(name)
    assert exists("boundary.call.*")
    assert exists("prove/test_coverage.py::test_every_row_is_there_once")
