"""What a driver sends is hostile: any bytes give records of the agreed shapes or one ``BadRecord``, and little is held."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dayfly.agent.kernels import records
from dayfly.agent.kernels.bash import MAX_RECORD, BashCodec
from dayfly.agent.kernels.codec import Codec
from dayfly.agent.kernels.node import NodeCodec
from dayfly.agent.kernels.python import PythonCodec
from dayfly.agent.kernels.records import BadRecord, Reader, clip, encode, is_base64

LIMIT = 4096

DONE = {"done": 1, "status": "ok", "error": None, "limit": None, "exit_code": None, "background": 0}
DISPLAY = {"display": {"data": {"text/plain": "x"}, "metadata": {}, "main": True, "omitted": 0}}
ERROR = {"name": "E", "value": "v", "traceback": "t"}


def framed(value: object) -> bytes:
    payload = json.dumps(value).encode()
    return len(payload).to_bytes(4, "big") + payload


def assert_harmless(error: BadRecord) -> None:
    """Nothing of the driver's own bytes is repeated at length or raw."""
    assert len(str(error)) < 200
    assert str(error).isascii()


def everything(reader: Reader | BashCodec) -> list[dict[str, Any]]:
    found = []
    while (record := reader.next()) is not None:
        found.append(record)
    return found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
near_misses = st.sampled_from([DONE, DISPLAY, {"ready": {}}]).flatmap(
    lambda record: st.fixed_dictionaries({**{name: st.just(value) | json_values for name, value in record.items()}})
)
hostile = st.binary(max_size=200) | (json_values | near_misses).map(framed)


@given(st.lists(hostile, max_size=8), st.lists(st.integers(1, 64), min_size=1, max_size=20))
@example([framed(DONE)], [1])
def test_any_bytes_give_checked_records_or_one_bad_record(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    reader = Reader(LIMIT)
    at = 0
    try:
        for cut in cuts * (len(data) // len(cuts) + 1):
            reader.feed(data[at : at + cut])
            at += cut
            for record in everything(reader):
                assert records.check(record) is record
            assert len(reader) <= LIMIT + 4 + cut
    except BadRecord as error:
        assert_harmless(error)


@given(st.lists(st.sampled_from([DONE, DISPLAY, {"ready": {"kernel": "k"}}]), max_size=10), st.integers(1, 50))
def test_records_arrive_whole_and_in_order_however_they_are_cut(sent: list[dict[str, Any]], step: int) -> None:
    data = b"".join(encode(record) for record in sent)
    reader = Reader(LIMIT)
    found = []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        found += everything(reader)
    assert found == sent


@given(st.binary(max_size=3000), st.integers(1, 64))
def test_any_bytes_of_a_shell_give_answers_or_one_bad_record(data: bytes, step: int) -> None:
    codec = BashCodec()
    try:
        for at in range(0, len(data), step):
            codec.feed(data[at : at + step])
            for record in everything(codec):
                records.check(record)
    except BadRecord as error:
        assert_harmless(error)


@pytest.mark.parametrize(("codec", "told"), [(NodeCodec(), True), (PythonCodec(), False)])
def test_only_a_driver_that_wants_to_know_is_told_of_an_interrupt_and_once(codec: Codec, told: bool) -> None:
    codec.interrupted = True
    requests = [json.loads(codec.request(run, "1", 1000, None)[4:]) for run in (1, 2)]
    assert ["settle" in request for request in requests] == [told, False]


def test_a_shell_that_never_ends_its_record_is_not_held_for_ever() -> None:
    codec = BashCodec()
    codec.feed(b"x" * (MAX_RECORD + 1))
    with pytest.raises(BadRecord):
        codec.next()


@pytest.mark.parametrize("length", [LIMIT + 1, 1 << 31, (1 << 32) - 1])
def test_a_record_that_is_too_long_is_refused_before_it_is_read(length: int) -> None:
    reader = Reader(LIMIT)
    reader.feed(length.to_bytes(4, "big"))
    with pytest.raises(BadRecord, match="are allowed"):
        reader.next()


@pytest.mark.parametrize(
    "record",
    [
        {**DONE, "status": "fine"},
        {**DONE, "limit": "patience"},
        {**DONE, "exit_code": 256},
        {**DONE, "background": -1},
        {**DONE, "background": True},
        {**DONE, "exit_code": -1},
        {**DONE, "exit_code": True},
        {**DONE, "more": 1},
        {**DONE, "error": {"name": "E"}},
        {**DONE, "error": {**ERROR, "value": 5}},
        {key: value for key, value in DONE.items() if key != "limit"},
        {"display": {**DISPLAY["display"], "omitted": -1}},
        {"display": {**DISPLAY["display"], "main": 1}},
        {"display": {**DISPLAY["display"], "data": {"x" * 300: "y"}}},
        {"display": {**DISPLAY["display"], "data": {"text/\n": "y"}}},
        {"display": {**DISPLAY["display"], "data": {"text/plain": None}}},
        {"display": {**DISPLAY["display"], "data": {f"a/{n}": "" for n in range(33)}}},
        {"display": {**DISPLAY["display"], "data": {"image/png": "!"}}},
        {"display": {**DISPLAY["display"], "metadata": []}},
        {"ready": 1},
        {"ready": {}, "done": 1},
        {},
        [],
        None,
        "done",
    ],
)
def test_whatever_is_not_exactly_as_agreed_is_refused(record: object) -> None:
    with pytest.raises(BadRecord):
        records.check(record)


@given(st.binary(max_size=100))
def test_base64_is_recognised(data: bytes) -> None:
    assert is_base64(base64.b64encode(data).decode())


@given(st.text(max_size=40))
def test_what_is_taken_for_base64_is_base64_to_the_host(text: str) -> None:
    if is_base64(text):
        base64.b64decode(text, validate=True)


@given(st.text(max_size=400), st.integers(100, 200), st.integers(0, 50))
def test_clipped_text_fits_and_keeps_both_ends(text: str, cap: int, head: int) -> None:
    found = clip(text, cap, head)
    assert len(found) <= cap
    assert found[:head] == text[:head]
    if len(text) > cap:
        assert "left out" in found
        assert found[-20:] == text[-20:]


def test_an_errors_parts_fit_in_one_frame_at_the_worst() -> None:
    error = records.clip_error("\U0001f600" * 10_000, "\0" * 1_000_000, "\udcff" * 10_000_000)
    assert len(encode({**DONE, "status": "error", "error": error})) < 1 << 20
