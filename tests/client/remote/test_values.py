"""What a server sends has the types that it is said to have, or is refused as a whole."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.client.remote import values
from dayfly.client.remote.failures import BadAnswer
from dayfly.client.remote.values import Fields, load, told_sandbox
from dayfly.limits import Limits
from dayfly.policy import Policy
from dayfly.server.answers import json_bytes
from dayfly.spec import (
    Denial,
    EndReason,
    Enforcement,
    Execution,
    ExecutionError,
    FileInfo,
    FileKind,
    LimitReport,
    Outcome,
    ProcessInfo,
    ProcessResult,
    Result,
    Usage,
)

LIMITS = (LimitReport("memory", 2.0**30, Enforcement.ENFORCED, "by a test"),)
RESULT = Result({"text/plain": "x", "image/png": b"\x89PNG", "application/json": {"a": [1, None]}}, {"m": 1}, True)
DENIED = (
    Denial("other.example.com", 443, "not_listed", "no rule names it", "ask for one"),
    Denial("caf\\xe9", None, "not_listed", "it is not on the list", "", claimed=True, count=3),
)
EXECUTION = Execution(
    Outcome.ERROR, error=ExecutionError("E", "v", "t"), execution_count=3, exit_code=1, limit="output", dropped=5,
    duration=0.5, cpu_seconds=0.25, state_survived=False, end_reason=EndReason.MEMORY_LIMIT, limits=LIMITS,
    denied=DENIED,
)  # fmt: skip
INFO = FileInfo("caf\udce9", "/caf\udce9", FileKind.SYMLINK, 7, 0o755, -1.5, "to")
PROCESS = ProcessInfo(7, ("a", "\udcff"), "/", running=False, pty=True, exit_code=None, signal=9)
ENDED = ProcessResult(Outcome.TIMEOUT, signal=15, limit="run_seconds", duration=1.0, denied=DENIED)
SANDBOX = {
    "id": "a" * 32, "state": "ready", "end_reason": None, "end_detail": "", "conversation": None, "template": None,
    "created": 1.0, "expires": 2.0, "policy": Policy(limits=Limits(memory="512MiB")).model_dump(mode="json"),
    "limits": LIMITS, "languages": ("python",),
}  # fmt: skip


def sent(value: object) -> Fields:
    """As it arrives."""
    return Fields(load(json_bytes(value)), "a test")


@pytest.mark.parametrize(
    ("noun", "read"),
    [
        (EXECUTION, values.read_execution),
        (Execution(Outcome.OK), values.read_execution),
        (RESULT, values.read_result),
        (INFO, values.read_file_info),
        (PROCESS, values.read_process),
        (ENDED, lambda one: values.read_process_result(one, b"", b"")),
        (Usage(1.5, 2, None, 4, 5), values.read_usage),
        (values.Context("a", "python", True), values.read_context),
    ],
)
def test_a_noun_arrives_as_it_was_sent(noun: object, read: Any) -> None:
    arrived = read(sent(noun))
    assert {one.name: getattr(arrived, one.name) for one in fields(type(noun))} == {  # type: ignore[arg-type]
        one.name: getattr(noun, one.name)
        for one in fields(type(noun))  # type: ignore[arg-type]
    }


def test_a_sandbox_arrives_with_its_policy_and_its_end() -> None:
    told = told_sandbox(sent(SANDBOX))
    assert (told.id, told.policy.limits.memory, told.end_reason, told.limits) == ("a" * 32, 512 * 2**20, None, LIMITS)
    ended = told_sandbox(sent({**SANDBOX, "state": "ended", "end_reason": "idle_timeout", "end_detail": "600 s"}))
    assert (ended.end_reason, ended.end_detail) == (EndReason.IDLE_TIMEOUT, "600 s")


def test_a_policy_that_this_client_does_not_know_is_refused_by_name() -> None:
    policy = {**SANDBOX["policy"], "tomorrow": 1}  # type: ignore[dict-item]
    with pytest.raises(BadAnswer, match="tomorrow"):
        told_sandbox(sent({**SANDBOX, "policy": policy}))


def test_limits_that_come_again_are_the_same_and_changed_ones_are_read_anew() -> None:
    first, again = (values.read_limits(sent(SANDBOX)) for _ in range(2))
    assert first is again
    other = [{"name": "memory", "value": 7.0, "enforcement": "watched", "how": "looked at"}]
    assert [(one.name, one.value) for one in values.read_limits(sent({**SANDBOX, "limits": other}))] == [
        ("memory", 7.0)
    ]
    assert values.read_limits(sent(SANDBOX)) == LIMITS
    for bad in (None, "memory", [{**other[0], "enforcement": "hoped for"}], [{**other[0], "value": -1}]):
        with pytest.raises(BadAnswer):
            values.read_limits(sent({**SANDBOX, "limits": bad}))


def test_what_was_denied_is_bounded_and_an_older_server_says_nothing_of_it() -> None:
    whole = json.loads(json_bytes(EXECUTION))
    for bad in ("all", [1], [{}], [{**whole["denied"][0], "port": 65536}], whole["denied"] * 501):
        with pytest.raises(BadAnswer):
            values.read_execution(Fields({**whole, "denied": bad}, "a test"))
    del whole["denied"]
    assert values.read_execution(Fields(whole, "a test")).denied == ()


def test_more_fields_than_this_client_knows_are_left_alone() -> None:
    assert told_sandbox(sent({**SANDBOX, "tomorrow": 1})).id == "a" * 32


@pytest.mark.parametrize("bad", [b"", b"{", b"\xff", b"[" * 100_000, b"NaN", b"-Infinity", b"9" * 5000, b"{}{}"])
def test_what_is_no_json_is_refused(bad: bytes) -> None:
    with pytest.raises(BadAnswer):
        load(bad)


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, True, "7", None, [7]])
def test_a_count_is_a_whole_number_within_bounds(bad: object) -> None:
    assert Fields({"n": 7}, "x").whole("n") == 7
    with pytest.raises(BadAnswer, match="n should be a whole number"):
        Fields({"n": bad}, "x").whole("n")


@pytest.mark.parametrize("bad", [-0.5, 1e308, float("inf"), float("nan"), True, "7", None])
def test_a_duration_is_finite_and_not_negative(bad: object) -> None:
    with pytest.raises(BadAnswer):
        Fields({"n": bad}, "x").number("n")


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 129, "ä", "a b"])
def test_an_id_is_letters_and_digits(name: str) -> None:
    with pytest.raises(BadAnswer):
        told_sandbox(sent({**SANDBOX, "id": name}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([EXECUTION, RESULT, INFO, PROCESS, ENDED, SANDBOX]), st.data())
def test_a_field_of_another_type_is_refused_or_harmless(noun: object, data: st.DataObject) -> None:
    """Whatever one field becomes, what is read either is a ``BadAnswer`` or has the types that it declares."""
    whole = json.loads(json_bytes(noun))
    name = data.draw(st.sampled_from(sorted(whole)))
    whole[name] = data.draw(JSON)
    readers: dict[type, Any] = {
        Execution: values.read_execution,
        Result: values.read_result,
        FileInfo: values.read_file_info,
        ProcessInfo: values.read_process,
        ProcessResult: lambda one: values.read_process_result(one, b"", b""),
        dict: told_sandbox,
    }
    try:
        read = readers[type(noun)](Fields(whole, "a test"))
    except BadAnswer:
        return
    repr(read)
    if isinstance(read, (Execution, ProcessResult)):
        assert isinstance(read.explanation, str)


def test_limits_that_are_too_deep_to_be_compared_are_read_anew() -> None:
    rows = []
    for _ in range(2):
        deep: list[object] = []
        for _ in range(5000):
            deep = [deep]
        rows.append([{"name": "memory", "value": 1, "enforcement": "enforced", "how": "by a test", "more": deep}])
    first, second = (values.read_limits(Fields({"limits": one}, "a run")) for one in rows)
    assert first == second
    values.read_limits(Fields({"limits": []}, "a run"))  # forget them
