"""Every reader of hostile bytes: what was found once is found no more, and some hundred new inputs each day."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fuzz.corpus import HERE, TARGETS, kept
from tests.fuzz.fuzzer import fuzz
from tests.fuzz.target import weighed

DOCS = HERE.parents[1] / "docs" / "fuzz.md"


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_is_found_no_more(name: str) -> None:
    target = TARGETS[name]
    try:
        for data in kept(name).values():
            weighed(target, data)
    finally:
        target.close()


@pytest.mark.parametrize("name", TARGETS)
def test_the_short_form_finds_nothing(name: str) -> None:
    """So many inputs, not so many seconds; others each day, and the same for whoever looks into today's failure."""
    day = datetime.now(UTC).toordinal()
    target = TARGETS[name]
    report = fuzz(target, seed=day, inputs=kept(name).values(), examples=target.examples)
    assert not report.findings, "\n".join(f"{one.where}: {one.data!r}\n{one.trace}" for one in report.findings)
    assert report.executions >= target.examples
    assert report.taken > report.branches // 10, "it goes nowhere: is this still what reads?"


def test_every_target_stands_in_the_docs() -> None:
    text = DOCS.read_text("utf-8")
    assert not [name for name in TARGETS if f"| `{name}` |" not in text]


def test_every_kept_input_is_somebodys() -> None:
    assert {path.name for path in Path(HERE, "corpus").iterdir()} <= set(TARGETS)
