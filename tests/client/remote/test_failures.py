"""The server's errors are the caller's: of the same class, with what belongs to it; the rest has the server's words."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly import errors
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable, failure, foreign_failure
from dayfly.errors import (
    AdmissionRefused,
    DayflyError,
    FileProblem,
    InputError,
    LocalFileError,
    SandboxEnded,
    SandboxFileError,
)
from dayfly.server.errors import error_body, error_headers

ALL = [
    one
    for one in vars(errors).values()
    if inspect.isclass(one) and issubclass(one, DayflyError) and not issubclass(one, OSError)
]


def an(kind: type[DayflyError]) -> DayflyError:
    if kind is SandboxEnded:
        return SandboxEnded("memory_limit", "1 GiB")
    if kind is SandboxFileError:
        return SandboxFileError(FileProblem.NOT_FOUND, "caf\udce9", "a detail")
    error = kind.__new__(kind)  # whatever more its constructor wants
    DayflyError.__init__(error, "a message", remedy="a remedy")
    if isinstance(error, AdmissionRefused):
        error.retry_after = 7.0
    return error


@pytest.mark.parametrize("kind", ALL)
def test_every_error_arrives_as_it_was_raised(kind: type[DayflyError]) -> None:
    sent = an(kind)
    arrived = failure(error_body(sent), sent.http_status, error_headers(sent).get("retry-after"))
    assert (type(arrived), arrived.code) == (kind, sent.code)
    assert arrived.message == sent.message.replace("\udce9", "\\xdce9")
    assert {**vars(arrived), "message": ""} == {**vars(sent), "message": ""}
    assert pickle.loads(pickle.dumps(arrived)).message == arrived.message


@pytest.mark.parametrize(("status", "kind"), [(404, InputError), (500, DayflyError), (200, DayflyError)])
def test_an_unknown_one_has_the_servers_words(status: int, kind: type[DayflyError]) -> None:
    told = {"code": "of_tomorrow", "message": "a\x1b[2J message", "remedy": "a remedy", "retryable": True}
    arrived = failure({"error": told}, status)
    assert type(arrived) is kind
    assert str(arrived) == "a\\x1b[2J message (a remedy)"
    assert arrived.retryable
    assert (arrived.http_status, arrived.code) == (status, "of_tomorrow")


def test_errors_of_the_callers_own_files_come_from_no_server() -> None:
    arrived = failure({"error": {"code": "local_file_error", "message": "m"}}, 400)
    assert not isinstance(arrived, LocalFileError)
    assert isinstance(arrived, InputError)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
TOLD = st.dictionaries(
    st.sampled_from(
        ["code", "message", "remedy", "retryable", "end_reason", "end_detail", "problem", "path", "detail"]
    ),
    JSON | st.sampled_from(["sandbox_ended", "sandbox_file_error", "admission_refused", "input_error"]),
)


@given(JSON | st.fixed_dictionaries({"error": TOLD}), st.integers(100, 599), st.none() | st.text())
def test_whatever_a_server_says_is_a_bounded_error_or_none(told: Any, status: int, retry_after: str | None) -> None:
    error = failure(told, status, retry_after)
    if error is None:
        return
    assert isinstance(error, DayflyError)
    assert str(error).isprintable()
    assert len(str(error)) < 50_000
    if isinstance(error, AdmissionRefused):
        assert 0 <= error.retry_after < 1e9


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_can_be_tried_again(status: int) -> None:
    error = foreign_failure(status, "http://h")
    assert isinstance(error, ServerUnreachable)
    assert error.retryable


def test_another_program_at_the_address_is_told_apart() -> None:
    error = foreign_failure(404, "http://h")
    assert isinstance(error, BadAnswer)
    assert "http://h answers 404" in str(error)
