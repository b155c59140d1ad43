"""Results of one run, as they come out: cut, decoded and bounded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.sandbox.collect import MAX_VALUES, ResultReader
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.payloads import MAX_ITEMS, values_in

MIB = 1 << 20


def record(data: object) -> bytes:
    payload = json.dumps({"data": data, "metadata": {}, "main": False}).encode()
    return len(payload).to_bytes(4, "big") + payload


@given(st.lists(st.integers(1, 30), min_size=1), st.integers(1, 7))
def test_any_cut_gives_the_same_results(sizes: list[int], cut: int) -> None:
    reader = ResultReader(MIB)
    stream = b"".join(record({"text/plain": "x" * size}) for size in sizes)
    pieces = [stream[at : at + cut] for at in range(0, len(stream), cut)]
    found = [one for piece in pieces for one in reader.feed(piece)]
    assert [len(one.data["text/plain"]) for one in found] == sizes


def test_json_that_would_be_much_larger_in_memory_is_left_out_and_counted() -> None:
    reader = ResultReader(4 * MIB)
    small = record({"application/json": [{}] * (MAX_VALUES // 3)})
    assert len(reader.feed(small)) == 1
    assert reader.feed(small) == []
    assert reader.dropped == len(small) - 4
    assert len(reader.feed(record({"text/plain": "still " + ", " * 100_000}))) == 1, "commas in text are no values"


def test_a_record_of_nothing_but_quotes_is_refused_unread() -> None:
    payload = b'"' * (5 * MAX_ITEMS)
    with pytest.raises(RemoteProtocolError):
        ResultReader(8 * MIB).feed(len(payload).to_bytes(4, "big") + payload)


def test_a_record_of_too_many_strings_is_left_out_without_being_split() -> None:
    payload = b'{"a":' + b'"",' * (3 * MAX_ITEMS)
    assert values_in(payload) == MAX_ITEMS + 1
    reader = ResultReader(8 * MIB)
    assert reader.feed(len(payload).to_bytes(4, "big") + payload) == []
    assert reader.dropped == len(payload)
