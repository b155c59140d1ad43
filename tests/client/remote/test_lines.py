"""NDJSON is cut the same however it arrives, and never fills memory."""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.client.remote.failures import BadAnswer
from dayfly.client.remote.lines import Lines


def cut(data: bytes, at: list[int], cap: int = 1000) -> list[bytes]:
    lines, found, places = Lines(cap), [], sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    for start, end in pairwise(places):
        found += list(lines.feed(data[start:end]))
    return found


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.lists(st.integers(0, 1000)))
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], at: list[int]) -> None:
    whole = [stripped for line in lines if (stripped := line.strip())]
    assert cut(b"".join(line + b"\n" for line in lines), at) == whole


def test_empty_lines_are_left_out_and_an_unfinished_one_is_not_given() -> None:
    assert cut(b"\n\r\n{}\n\n[1", [1, 2, 3]) == [b"{}"]


@given(st.lists(st.integers(1, 50), min_size=1))
def test_a_line_beyond_the_cap_is_refused_while_it_comes(pieces: list[int]) -> None:
    lines, sent = Lines(100), 0
    for size in cycle(pieces):
        if sent + size > 100:
            break
        sent += size
        assert list(lines.feed(b"x" * size)) == []
    with pytest.raises(BadAnswer, match="100 bytes"):
        list(lines.feed(b"x" * size))


def test_a_line_as_long_as_the_cap_is_taken() -> None:
    assert cut(b"x" * 100 + b"\n", [50], cap=100) == [b"x" * 100]
