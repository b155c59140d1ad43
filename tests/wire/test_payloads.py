"""JSON from hostile bytes is small, shallow and plain, or one error; what is written here is always accepted there."""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError
from dayfly.wire.frames import MAX_PAYLOAD
from dayfly.wire.messages import FRAME_ITEMS, Event, Finish, encode
from dayfly.wire.payloads import MAX_DEPTH, MAX_INT, MIN_INT, dump_json, load_json

from .peers import thorough, values

REFUSED = {
    "nothing": b"",
    "two values": b"1 2",
    "cut off": b'{"a":',
    "NaN": b"NaN",
    "infinity": b"[Infinity]",
    "minus infinity": b"-Infinity",
    "a float beyond all floats": b"1e999",
    "the same, negative": b"-1e999",
    "an integer of 65 bits": b"18446744073709551616",
    "a negative integer of 65 bits": b"-9223372036854775809",
    "an integer that takes a minute to convert": b"9" * 1_000_000,
    "a float that takes a minute to convert": b"0." + b"1" * 1_000_000,
    "a key twice": b'{"a":1,"a":2}',
    "a key twice, spelled differently": b'{"a":1,"\\u0061":2}',
    "a raw control character": b'"\x01"',
    "a raw NUL": b'"\x00"',
    "bytes that are not UTF-8": b'"\xff"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a byte order mark": b"\xef\xbb\xbf1",
    "UTF-16": "1".encode("utf-16"),
    "an unknown escape": b'"\\x41"',
    "a lone backslash": b'"\\',
    "leading zeros": b"01",
    "a plus sign": b"+1",
    "a comment": b"1/**/",
    "single quotes": b"'a'",
    "a trailing comma": b"[1,]",
    "an unfinished string of escaped quotes": b'"' + b'\\"' * 400_000,
    "an unfinished string of backslashes": b'"' + b"\\\\" * 400_000,
    "only quotes": b'"' * MAX_PAYLOAD,
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b"[" * 65 + b"]" * 65,
    "deep and mixed": b'[{"":' * 33 + b"1" + b"}]" * 33,
}
TAKEN = {
    b"-0": 0,
    b"-0.0": -0.0,
    b' \t\r\n{"a" : [1, 2.5e3, null, true]} ': {"a": [1, 2500.0, None, True]},
    b'"\\u0000"': "\0",
    b'"\\udc80"': "\udc80",
    b'"\\ud83d\\ude00"': "\U0001f600",
    '"é"'.encode(): "é",
    b'{"":{"":{}}}': {"": {"": {}}},
    b"18446744073709551615": MAX_INT,
    b"-9223372036854775808": MIN_INT,
    b'"[[[[{{{{,,,,\\"[\\\\"': '[[[[{{{{,,,,"[\\',
    b"[" * 64 + b"]" * 64: None,
}


@pytest.fixture
def _integers_of_any_length() -> Iterator[None]:
    """As in Pythons without the limit, which may be the image's."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.usefixtures("_integers_of_any_length")
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_hostile_json_is_one_error_and_at_once(text: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(RemoteProtocolError) as caught:
        load_json(text)
    assert time.process_time() - begun < 1
    assert len(str(caught.value)) < 100  # nothing of the text is repeated


@pytest.mark.parametrize(("text", "value"), TAKEN.items())
def test_unusual_but_sound_json_is_taken(text: bytes, value: object) -> None:
    found = load_json(text)
    assert value is None or (found == value and type(found) is type(value))


@given(values)
@thorough(300)
def test_what_is_written_is_read_as_the_same_value(value: object) -> None:
    payload = dump_json(value)
    assert payload.isascii()
    assert load_json(payload) == value
    assert payload.decode() == json.dumps(value, separators=(",", ":"))


@given(st.recursive(values | st.floats() | st.integers() | st.binary(), lambda inner: st.lists(inner, max_size=3)))
@example(float("nan"))
@example(1 << 64)
@example([[float("-inf")]])
@example({1, 2})
@example(json.loads("[" * 65 + "]" * 65))
@thorough(300)
def test_what_could_not_be_read_is_not_written(value: object) -> None:
    try:
        payload = dump_json(value)
    except (ValueError, TypeError):
        return
    assert load_json(payload) == value


@given(st.binary(max_size=300) | st.text(alphabet='[]{}",:\\ 0123456789.eE+-untrfalsi', max_size=120).map(str.encode))
@thorough(500)
def test_any_bytes_are_json_as_the_library_sees_it_or_one_error(text: bytes) -> None:
    try:
        found = load_json(text)
    except RemoteProtocolError:
        return
    assert found == json.loads(text)


@given(st.text(alphabet='[]{}",:\\1 ', max_size=400))
@thorough(500)
def test_sound_json_is_refused_only_for_its_size_and_never_for_what_is_in_its_strings(text: str) -> None:
    assert load_json(dump_json([text] * 3)) == [text] * 3


def test_marks_in_strings_are_not_counted_as_values() -> None:
    code = '{"[,' * 200_000
    assert load_json(dump_json({"code": code})) == {"code": code}


BOMBS = {
    "empty objects": b"[" + b"{}," * 340_000 + b"{}]",
    "objects of one key": b"[" + b'{"":0},' * 145_000 + b"0]",
    "empty arrays": b"[" + b"[]," * 340_000 + b"[]]",
    "numbers": b"[" + b"1.5," * 250_000 + b"1]",
    "strings": b"[" + b'"ab",' * 200_000 + b"1]",
    "keys": b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b"}",
    "pairs of quotes": b'"a"' * 340_000,
    "wide and deep": b"[" + (b"[" * 60 + b"]" * 60 + b",") * 8000 + b"1]",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_frame_of_json_never_takes_much_more_than_a_frame(bomb: bytes) -> None:
    assert len(bomb) <= MAX_PAYLOAD
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            load_json(bomb, FRAME_ITEMS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MAX_PAYLOAD


def test_the_most_values_that_a_frame_may_hold_take_a_few_frames_of_memory() -> None:
    bombs = [b"[" + b",".join([one] * ((FRAME_ITEMS - 1) // marks)) + b"]" for one, marks in
             ((b"{}", 2), (b"[]", 2), (b'{"":0}', 2), (b"1.5", 1), (b'"ab"', 1))]  # fmt: skip
    for bomb in bombs:
        tracemalloc.start()
        try:
            load_json(bomb, FRAME_ITEMS)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 16 * MAX_PAYLOAD


@pytest.mark.parametrize("value", [float("nan"), 1 << 64, {1}, b"x", [[]] * 70_000, object()])
def test_a_value_that_cannot_travel_is_the_local_sides_error(value: object) -> None:
    with pytest.raises(LocalProtocolError):
        encode(Finish({"value": value}))
    deep: object = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(LocalProtocolError):
        encode(Event("change", {"deep": deep}))
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(LocalProtocolError):
        encode(Event("change", {"circle": circle}))
