"""Every shape of every operation: what it lists is accepted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.wire import operations
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.operations import HELLO_OPTIONS, OPERATIONS, WELCOME_FACTS, check
from dayfly.wire.payloads import dump_json, load_json

from .peers import objects, texts, thorough, values

_OF_TYPE: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-(1 << 63), 1 << 63),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: texts,
    bool: st.booleans(),
    list: st.lists(values, max_size=3),
    dict: objects,
    type(None): st.none(),
}
_ONE_OF_EACH: dict[type, Any] = {
    int: 1, float: 1.5, str: "x", bool: True, list: [], dict: {}, type(None): None, bytes: b"x", tuple: (), set: set()
}  # fmt: skip


def shapes() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "options", HELLO_OPTIONS
    yield "facts", WELCOME_FACTS
    for operation in OPERATIONS.values():
        yield f"{operation.name} params", operation.params
        yield f"{operation.name} finish", operation.finish
        for side in (operation.to_acceptor, operation.to_opener):
            for name, shape in side.items():
                yield f"{operation.name} event {name}", shape


SHAPES = [pytest.param(shape, id=name) for name, shape in shapes()]


def kinds_of(field: Any) -> tuple[type, ...]:
    return field if isinstance(field, tuple) else (field,)


def sound(shape: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {name: st.one_of([_OF_TYPE[kind] for kind in kinds_of(field)]) for name, field in shape.items()}
    )


def sample(shape: dict[str, Any]) -> dict[str, Any]:
    return {name: _ONE_OF_EACH[kinds_of(field)[0]] for name, field in shape.items()}


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@thorough(20)
def test_what_a_shape_lists_is_accepted_as_it_is_also_after_the_way_through_json(
    shape: dict[str, Any], data: st.DataObject
) -> None:
    value = data.draw(sound(shape))
    assert check(value, shape, "it", RemoteProtocolError) is value
    assert check(load_json(dump_json(value)), shape, "it", RemoteProtocolError) == value


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@thorough(20)
def test_anything_else_is_accepted_only_if_it_happens_to_fit(shape: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(st.dictionaries(st.sampled_from([*shape, "more"]) | texts, values, max_size=6) | values)
    fits = (
        isinstance(value, dict)
        and set(value) <= set(shape)
        and all(type(value.get(name)) in kinds_of(field) for name, field in shape.items())
    )
    if fits:
        check(value, shape, "it", RemoteProtocolError)
    else:
        with pytest.raises(RemoteProtocolError):
            check(value, shape, "it", RemoteProtocolError)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_field_must_be_there_unless_it_is_optional(shape: dict[str, Any]) -> None:
    for name, field in shape.items():
        value = {other: item for other, item in sample(shape).items() if other != name}
        if type(None) in kinds_of(field):
            check(value, shape, "it", RemoteProtocolError)
        else:
            with pytest.raises(RemoteProtocolError, match=f"it.{name} is missing"):
                check(value, shape, "it", RemoteProtocolError)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_field_must_be_of_exactly_its_type(shape: dict[str, Any]) -> None:
    for name, field in shape.items():
        for kind, item in _ONE_OF_EACH.items():
            value = {**sample(shape), name: item}
            if kind in kinds_of(field):
                check(value, shape, "it", RemoteProtocolError)
            else:
                with pytest.raises(RemoteProtocolError, match=f"it.{name} is missing or of the wrong type"):
                    check(value, shape, "it", RemoteProtocolError)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_field_more_is_refused_and_its_name_is_not_printed_raw(shape: dict[str, Any]) -> None:
    for extra in ("further", "", "\x1b[2J", "é", "\udc80", "x" * 100_000):
        with pytest.raises(RemoteProtocolError, match="unknown fields") as caught:
            check({**sample(shape), extra: 1}, shape, "it", RemoteProtocolError)
        assert str(caught.value).isascii()
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [None, [], "x", 1, True, [("pid", 1)], b"{}"])
def test_a_value_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(RemoteProtocolError, match="not an object"):
        check(value, {}, "it", RemoteProtocolError)


@pytest.mark.parametrize("error", [ProtocolError, LocalProtocolError, RemoteProtocolError])
def test_the_caller_says_whose_fault_it_is(error: type[ProtocolError]) -> None:
    with pytest.raises(error) as caught:
        check({}, {"pid": int}, "process.connect", error)
    assert type(caught.value) is error


def test_every_operation_that_is_defined_is_in_the_table_under_its_own_name() -> None:
    defined = {value.name: value for value in vars(operations).values() if isinstance(value, operations.Operation)}
    assert defined == OPERATIONS
    assert all(operation.name == name for name, operation in OPERATIONS.items())
    assert {operation.opener for operation in OPERATIONS.values()} <= {"host", "agent"}


def test_shapes_are_made_of_what_json_can_say() -> None:
    for _, shape in shapes():
        for name, field in shape.items():
            assert isinstance(name, str)
            assert name
            assert set(kinds_of(field)) <= set(_OF_TYPE), (name, field)
            assert kinds_of(field)[0] is not type(None)
