"""The fuzzer finds what is there to be found, by the branches that inputs take; and leaves everything as it was."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dayfly.client import trees
from dayfly.egress import heard, openings, packets
from dayfly.egress.http import heads
from dayfly.egress.packets import BadPacket
from dayfly.egress.services import redaction
from dayfly.egress.services.objects import chunks, documents
from dayfly.egress.services.packages import pages
from dayfly.manager import offered
from dayfly.sandbox import collect
from dayfly.server import guard
from dayfly.wire import messages
from tests.fuzz import maze
from tests.fuzz.corpus import TARGETS, kept
from tests.fuzz.coverage import constants, covered
from tests.fuzz.fuzzer import Report, fuzz
from tests.fuzz.mutation import Mutation
from tests.fuzz.target import MIB, Target, pieces, trial, weighed

SEED = 3


def maze_target(**more: Any) -> Target:
    return Target("maze", maze.walk, (maze,), (b"",), longest=64, **more)


# --- that it is guided ------------------------------------------------------------------------------------------------


def test_it_finds_its_way_by_the_branches_that_it_has_seen() -> None:
    """Five choices in a row, each of which chance alone would make once in hundreds."""
    report = fuzz(maze_target(), seed=SEED, examples=20_000)
    assert [one.where.partition(":")[0] for one in report.findings] == ["Treasure at maze.py"]
    assert len(report.findings[0].data) <= len(b"way!x") + 2, "it is made smaller"


def test_without_what_it_has_seen_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same chance, blind."""
    monkeypatch.setattr("tests.fuzz.coverage.Coverage.features", lambda self: set())
    assert fuzz(maze_target(), seed=SEED, examples=20_000).findings == []


def test_the_same_seed_tries_the_same() -> None:
    tried: list[list[bytes]] = [[], []]
    for some in tried:
        fuzz(Target("same", some.append, (maze,), (b"seed",)), seed=SEED, examples=200)
    assert tried[0] == tried[1]
    assert len(set(tried[0])) > 100


def test_what_is_instrumented_does_what_it_did_and_is_its_own_again() -> None:
    before, code = maze.walk, maze.every_kind.__code__
    expected = maze.every_kind(5)
    with covered([maze]) as coverage:
        assert maze.every_kind(5) == expected
        assert maze.walk is before
        assert maze.every_kind.__code__ is not code
        once = coverage.features()
        maze.every_kind(50)
        assert coverage.features() > once or coverage.features() != once
    assert maze.every_kind.__code__ is code
    assert b"open sesame" in constants([maze])


def test_mutations_stay_as_long_as_they_may_be() -> None:
    mutation = Mutation(random.Random(SEED), [b"word"], [b"known"], 100)
    for _ in range(2000):
        assert len(mutation.of(b"x" * 90, b"other" * 10)) <= 100
    assert len({mutation.of(b"", b"") for _ in range(50)}) > 5


def test_pieces_are_the_whole() -> None:
    for sizes in (b"", b"\0", b"\1", b"\3\0", b"\2\7"):
        assert b"".join(pieces(b"hello world", sizes)) == b"hello world"
    assert list(pieces(b"hello", b"\2")) == [b"he", b"ll", b"o"]


def test_what_does_not_end_and_what_takes_too_much_are_findings() -> None:
    def spin(_: bytes) -> None:
        while True:
            pass

    begun = time.process_time()
    with pytest.raises(Exception, match="of the CPU"):
        trial(Target("spin", spin, (), (), seconds=0.1), b"")
    assert time.process_time() - begun < 20
    held: list[bytes] = []
    with pytest.raises(AssertionError, match="allowed"):
        weighed(Target("greedy", lambda data: held.append(bytes(2 * MIB)), (), (), memory=1 * MIB), b"")


# --- planted bugs: one wall of a reader taken away, and its short form sees it ------------------------------------------


def finite(op: str, name: str, value: object, kinds: tuple[object, ...]) -> None:
    """As it was: a number of 400 digits is no float."""
    good = type(value) in kinds
    if isinstance(value, int | float):
        good = good and math.isfinite(value) and 0 <= value < packets.MAX_NUMBER
    if not good:
        raise BadPacket(f"{op}.{name}")


def unchecked(*_: object, **__: object) -> Any:
    return None


def as_it_comes(payload: bytes, *_: object) -> Any:
    return json.loads(payload)


def every_header(found: Iterable[tuple[bytes, bytes]]) -> Any:
    length = ("host", "content-length", "transfer-encoding")  # h11 is a wall of its own for these
    rows = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in found]
    return tuple(row for row in rows if row[0] not in length)


def yes(*_: object, **__: object) -> bool:
    return True


@contextmanager
def changed(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, value in changes:
            patch.setattr(owner, name, value)
        yield


Changes = tuple[tuple[Any, str, Any], ...]

PLANTED: dict[str, tuple[str, Changes]] = {
    "a frame's JSON is read as it comes": ("stream", ((messages, "load_json", as_it_comes),)),
    "a link may lead anywhere": ("tree", ((trees, "stays_inside", yes),)),
    "numbers are asked whether they are finite": ("packet", ((packets, "_check", finite),)),
    "what a gateway says is shown as it is": ("packet", ((heard, "printable", str),)),
    "a hello may name anybody": ("opening", ((openings, "_judge_hello", unchecked),)),
    "a chunk may be longer than what was announced": (
        "chunks",
        ((chunks.Unchunker, "_sized", lambda self, line: _any_size(self, line)),),
    ),
    "headers of one hop go on": ("request", ((heads, "end_to_end", every_header),)),
    "a record's JSON is read as it comes": ("results", ((collect, "load_json", as_it_comes),)),
    "a cut text is decided at once": ("redaction", ((redaction.Spellings, "_decided", lambda self, data: len(data)),)),
    "keys are written as they are": ("xml", ((documents, "escape", str),)),
    "wheels may have any number of tags": ("index", ((pages, "_MOST_TAGS", 1 << 30),)),
    "a name in a listing may be anything": ("answers", ((offered, "_is_next", yes),)),
    "the guard lets everything through unlooked": (
        "api",
        ((guard.Guard, "_check", unchecked), (guard, "MAX_BODY", -1)),
    ),
}


def _any_size(self: Any, line: bytes) -> None:
    self._chunk = int(line.partition(b";")[0] or b"0", 16)
    self._state = "data" if self._chunk else "trailers"


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_bug_is_found_by_the_short_form(what: str) -> None:
    name, changes = PLANTED[what]
    target = TARGETS[name]
    with changed(*changes):
        report: Report = fuzz(target, seed=SEED, inputs=kept(name).values(), examples=target.examples, most=1)
    assert report.findings, f"{what}: {report}"
