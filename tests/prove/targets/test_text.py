"""The program that a target is given: whole in itself, and what comes back is hostile."""

from __future__ import annotations

import ast
import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dayfly.prove.marks import tells
from dayfly.prove.targets import asked, text
from dayfly.prove.targets.running import Output, run
from tests.prove.targets.subjects import BY_ID, PYTHON

SECRET = "0123456789abcdef0123456789abcdef"


def said_of(program: bytes) -> Output:
    """In this machine's Python: only what must work anywhere is tried here."""
    return asyncio.run(run([PYTHON, "-"], program, 60, dict(os.environ)))


@pytest.mark.parametrize("name", ["useful.programs", "useful.threads", "useful.loopback", "useful.randomness"])
def test_it_needs_nothing_but_a_python(name: str) -> None:
    row = text.row_in(said_of(text.attempt(name, BY_ID[name].arguments, 20)))
    assert isinstance(row, dict)
    assert row["reached"], row


def test_every_probe_makes_a_program_that_old_pythons_can_read() -> None:
    for probe in asked():
        ast.parse(text.attempt(probe.attempt, probe.arguments, probe.seconds), feature_version=(3, 9))


def test_it_shows_no_mark_when_it_is_quoted_in_a_message() -> None:
    program = text.attempt("leaks.value_anywhere", {"reversed_value": SECRET[::-1], "files": ["maps"]}, 5).decode()
    assert not tells(program, SECRET)


def test_a_question_is_answered_by_who_runs_it_alone() -> None:
    alive = said_of(text.challenge("a word"))
    assert text.sign_of_life(alive, "a word") == ""
    assert text.sign_of_life(alive, "another word")
    assert text.sign_of_life(Output("", "boom"), "a word").endswith("boom")
    assert text.sign_of_life(Output("", "", "it was not done in 1 s"), "a word").endswith("in 1 s")


@given(some.text() | some.recursive(some.none() | some.integers() | some.text(), some.lists).map(json.dumps))
def test_whatever_comes_out_is_a_row_or_none(said: str) -> None:
    text.row_in(Output(said))
    text.sign_of_life(Output(said), "a word")


def test_what_is_said_before_the_row_does_not_matter() -> None:
    assert text.row_in(Output('starting ...\n{"tried": 1}\n\n')) == {"tried": 1}
    assert text.row_in(Output("[" * 100_000)) is None
