"""SPECIFICATION.md is true: every promise names tests that exist, or says that it is pending."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
REFERENCE = re.compile(r"`(\w*): (test_\w+)`")


def promises() -> list[tuple[str, str]]:
    text = (HERE.parent / "SPECIFICATION.md").read_text("utf-8")
    return [(number, holders) for number, _, holders in ROW.findall(text)]


@cache
def names_of_tests(folder: Path) -> set[str]:
    files = folder.rglob("test_*.py") if folder != HERE else folder.glob("test_*.py")
    trees = (ast.parse(path.read_text("utf-8")) for path in files)
    return {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_every_promise_is_held_by_tests_that_exist_or_says_that_it_is_pending() -> None:
    for number, holders in promises():
        references = REFERENCE.findall(holders)
        assert references or holders == "*pending*", f"{number} names neither a test nor pending"
        for folder, name in references:
            assert name in names_of_tests(HERE / folder), f"{number} names {folder}: {name}, which does not exist"


def test_no_number_is_given_twice() -> None:
    numbers = [number for number, _ in promises()]
    assert len(numbers) > 30
    assert len(numbers) == len(set(numbers))
