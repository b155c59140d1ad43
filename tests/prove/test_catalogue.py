"""The probes as values: each is one of its kind, can be carried out, and says what it is."""

from __future__ import annotations

import ast
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

import dayfly.prove.bundle
from dayfly.prove import ALL, Place, Probe, Property, chosen
from dayfly.prove.callers import ATTEMPTS
from dayfly.prove.floods import MEASURES
from dayfly.prove.marks import TOKEN, fill, tells, token_of
from dayfly.prove.posture import EXAMINATIONS
from dayfly.prove.twins import DRAW

INSIDE = Path(dayfly.prove.bundle.__file__).parent / "inside"


def functions() -> dict[str, ast.arguments]:
    """What runs inside, by the names that probes give. Read, never imported."""
    found = {}
    for path in INSIDE.glob("*.py"):
        for node in ast.parse(path.read_text(), feature_version=(3, 9)).body:
            if isinstance(node, ast.FunctionDef):
                found[f"{path.stem}.{node.name}"] = node.args
    return found


def test_there_are_many_and_every_property_has_some() -> None:
    denied = [probe for probe in ALL if probe.property is not Property.USEFUL]
    assert len(denied) >= 120
    assert {probe.property for probe in ALL} == set(Property)


def test_no_id_is_given_twice() -> None:
    ids = [probe.id for probe in ALL]
    assert sorted(ids) == sorted(set(ids))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]+", one) for one in ids)


@pytest.mark.parametrize("probe", ALL, ids=lambda probe: probe.id)
def test_each_can_be_carried_out(probe: Probe) -> None:
    assert probe.title
    assert probe.source
    if probe.place is Place.OUTSIDE:
        assert probe.attempt in EXAMINATIONS
    elif probe.place is Place.RESTORED:
        assert probe.attempt == "draw"
        assert all(f'"{key}":' in DRAW for key in probe.arguments["drawn"])
    elif probe.place is Place.SERVED:
        assert probe.attempt in ATTEMPTS
    else:
        arguments = functions()[probe.attempt]
        names = [argument.arg for argument in arguments.args]
        needed = names[: len(names) - len(arguments.defaults)]
        assert set(needed) <= set(probe.arguments) <= set(names)
    assert (probe.measure in MEASURES) is (probe.place is Place.ALONE)


def test_nothing_is_left_over() -> None:
    used = {probe.attempt for probe in ALL}
    assert set(EXAMINATIONS) | set(ATTEMPTS) <= used


@pytest.mark.parametrize("question", [1, 2, 3, 4])
def test_every_question_is_asked_by_quick_probes(question: int) -> None:
    assert [probe for probe in chosen(quick=True) if probe.question == question]


def test_a_choice_has_what_must_work_besides() -> None:
    found = {probe.property for probe in chosen([Property.DNS])}
    assert found == {Property.DNS, Property.USEFUL}
    assert {probe.place for probe in chosen(quick=True)}.isdisjoint({Place.ALONE})


def test_marks_fill_what_they_name_and_keep_their_kind() -> None:
    marks = {"port": 7, "nonce": "abc", "list": ["x"]}
    value = {"a": "{port}", "b": ["{nonce}.invalid", "{list}"], "c": 3, "d": "{unknown}"}
    assert fill(value, marks) == {"a": 7, "b": ["abc.invalid", ["x"]], "c": 3, "d": "{unknown}"}


SECRET = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize(
    "written",
    [str, lambda said: said[::-1], str.upper, lambda said: said.encode().hex(), lambda said: b64encode(said.encode()).decode(),
     lambda said: urlsafe_b64encode(said.encode()).decode()],
)  # fmt: skip
def test_a_secret_is_known_again_however_it_is_written(written: Callable[[str], str], before: int) -> None:
    assert tells(f"x {written('y' * before + SECRET + 'z')} x", SECRET)
    assert not tells(f"x {written('y' * before + SECRET[::2] + 'z')} x", SECRET)


def test_a_token_is_one_probes_own() -> None:
    assert len({token_of(probe) for probe in ALL}) == len(ALL)
    assert all(token_of(probe).startswith(TOKEN) for probe in ALL)


def test_no_address_or_name_is_anybodys() -> None:
    """Reserved, private, of this machine, or of the proof's own internet: no probe speaks to strangers."""
    closed = [probe for probe in ALL if probe.place in (Place.CLOSED, Place.BESIDE)]
    named = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")
    reserved = ("10.", "127.", "169.254.", "172.16.", "172.17.", "172.31.", "192.168.", "192.0.2.", "198.51.100.", "203.0.113.", "100.",
                "224.", "239.", "255.255.255.255", "0.0.0.0", "168.63.129.16", "192.0.0.192")  # fmt: skip
    found = {address for probe in closed for address in named.findall(str(dict(probe.arguments)))}
    assert found
    assert [address for address in found if not address.startswith(reserved)] == []
