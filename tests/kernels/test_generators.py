"""Drawing anew, step by step; that it makes a difference is shown with real snapshots (``tests/snapshots``)."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from dayfly.agent.kernels import generators, records
from dayfly.agent.kernels.records import BadRecord
from tests.kernels.test_records import framed


def module(**functions: Any) -> Any:
    made = types.ModuleType("stand-in")
    made.__dict__.update(functions)
    return made


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, _, _ in generators.STEPS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return monkeypatch


def test_what_is_not_loaded_is_not_touched(nothing_loaded: pytest.MonkeyPatch) -> None:
    assert generators.renew(False) == {"renewed": [], "kept": []}


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, MemoryError])
def test_a_step_that_raises_stops_no_other(nothing_loaded: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    stirred: list[float] = []
    nothing_loaded.setitem(sys.modules, "random", module(seed=fail))
    nothing_loaded.setitem(sys.modules, "numpy.random", module())
    nothing_loaded.setitem(sys.modules, "ssl", module(RAND_add=lambda data, size: stirred.append(size)))
    assert generators.renew(False) == {"renewed": ["ssl"], "kept": ["random", "numpy.random"]}
    assert stirred == [generators.ENTROPY]


def test_a_fork_keeps_what_may_have_been_seeded_and_nothing_else(nothing_loaded: pytest.MonkeyPatch) -> None:
    seeded: list[str] = []
    nothing_loaded.setitem(sys.modules, "random", module(seed=lambda: seeded.append("random")))
    nothing_loaded.setitem(sys.modules, "tempfile", module(_name_sequence="old"))
    assert generators.renew(True) == {"renewed": ["tempfile"], "kept": ["random"]}
    assert not seeded
    assert generators.renew(False) == {"renewed": ["random", "tempfile"], "kept": []}
    assert seeded == ["random"], "the control"


@pytest.mark.parametrize(
    "record",
    [
        {"renewed": ["x"]},
        {"renewed": "x", "kept": []},
        {"renewed": [1], "kept": []},
        {"renewed": ["x" * 1000], "kept": []},
        {"renewed": [], "kept": ["x"] * 1000},
        {"renewed": [], "kept": [], "more": 1},
    ],
)
def test_an_answer_with_other_things_than_names_is_none(record: dict[str, object]) -> None:
    reader = records.Reader()
    reader.feed(framed(record))
    with pytest.raises(BadRecord):
        reader.next()
    reader = records.Reader()
    reader.feed(framed({"renewed": ["random"], "kept": []}))
    assert reader.next() == {"renewed": ["random"], "kept": []}, "the control"
