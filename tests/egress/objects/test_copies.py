"""Inputs and outputs as a policy has them: the words of a rule for objects, and a directory."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dayfly.errors import PolicyError
from dayfly.limits import AS_KEPT
from dayfly.network import Input, ObjectsRule, Output
from dayfly.network.copies import MOST_COPIES
from dayfly.policy import Policy, parse_policy
from dayfly.server.reach import Reach

PLACE = {"bucket": "lake", "prefix": "in/", "endpoint": "https://s3.example.com", "credentials": "lake-reader"}


def inputs(**more: Any) -> dict[str, Any]:
    return {"inputs": [{**PLACE, **more}]}


def outputs(**more: Any) -> dict[str, Any]:
    return {"outputs": [{**PLACE, **more}]}


def test_what_is_left_out_has_its_default() -> None:
    policy = parse_policy({**inputs(), **outputs()})
    (one,), (other,) = policy.inputs, policy.outputs
    assert (one.to, other.from_, one.region, one.private, one.max_bytes) == (
        "inputs",
        "outputs",
        "us-east-1",
        None,
        None,
    )
    assert Policy().inputs == Policy().outputs == ()


def test_they_are_judged_as_rules_for_objects() -> None:
    policy = parse_policy({**inputs(private="10.0.0.0/8", max_bytes="1MiB"), **outputs()})
    (where, one), (elsewhere, other) = policy.destinations
    assert (where, elsewhere) == ("inputs[0]", "outputs[0]")
    assert isinstance(one, ObjectsRule)
    assert isinstance(other, ObjectsRule)
    assert (one.objects.access, other.objects.access) == (("read", "list"), ("write",))
    assert (str(one.private), one.max_bytes, other.private) == ("10.0.0.0/8", 1 << 20, None)
    assert one.leads_to == "s3.example.com"
    assert one.secrets == {"lake-reader"}


def test_a_policy_comes_back_as_it_was() -> None:
    policy = parse_policy({**inputs(to="/data/in", private="fd00::/8"), **outputs(**{"from": "work/out"})})
    told = policy.model_dump(mode="json")
    assert told["outputs"][0]["from"] == "work/out"
    assert "from_" not in told["outputs"][0]
    assert Policy.model_validate(told, context=AS_KEPT) == policy
    assert Policy.model_validate_json(policy.model_dump_json()) == policy
    assert Policy(outputs=[Output(**PLACE, from_="work")]).outputs[0].from_ == "work"


@pytest.mark.parametrize(
    ("given", "kept"), [("in", "in"), ("in/", "in"), ("/data/in/", "/data/in"), ("a b/ü", "a b/ü")]
)
def test_a_directory_has_one_spelling(given: str, kept: str) -> None:
    assert Policy(**inputs(to=given)).inputs[0].to == kept


@pytest.mark.parametrize(
    "path",
    ["", "/", ".", "..", "a/../b", "./a", "a//b", "//a", "a\n", "a\0", "a\\b", "\ud800", "n" * 256, "n/" * 600, "~/../x"],
)  # fmt: skip
def test_what_is_no_directory_is_refused(path: str) -> None:
    for given in (inputs(to=path), outputs(**{"from": path})):
        with pytest.raises(PolicyError) as caught:
            parse_policy(given)
        assert caught.value.remedy
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (inputs(access=["read"]), "no key 'inputs.0.access'|no key 'inputs\\[0\\].access'"),
        (inputs(**{"from": "x"}), "no key"),
        (outputs(to="x"), "no key"),
        (inputs(rate="1MiB"), "no key"),
        (inputs(endpoint="http://s3.example.com"), "plain HTTP"),
        (inputs(endpoint="https://store"), "single label"),
        (inputs(private="8.8.8.0/24"), "inputs"),
        (inputs(prefix="in"), "slash"),
        (inputs(max_bytes=1), "at least 1 KiB"),
        ({"inputs": PLACE}, "inputs are a list"),
        ({"outputs": PLACE}, r"outputs are a list \(write \[\{...\}\]; in TOML \[\[outputs\]\]"),
        ({"inputs": [PLACE] * (MOST_COPIES + 1)}, "17 inputs are too many"),
        ({"inputs": [PLACE, {**PLACE, "prefix": "b/"}]}, "directories in each other"),
        ({"inputs": [{**PLACE, "to": "a"}, {**PLACE, "to": "a/b"}]}, "directories in each other"),
        ({"inputs": [{**PLACE, "to": "a"}, {**PLACE, "to": "/home/user/a"}]}, "directories in each other"),
        ({"outputs": [PLACE, {**PLACE, "prefix": "b/"}]}, "directories in each other"),
        ({"outputs": [PLACE, {**PLACE, "from": "b"}]}, "write the same keys"),
        ({"outputs": [PLACE, {**PLACE, "from": "b", "prefix": "in/sub/"}]}, "write the same keys"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(given: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError, match=words) as caught:
        parse_policy(given)
    assert caught.value.remedy


def test_neighbours_are_no_overlap() -> None:
    two = [{**PLACE, "to": "a"}, {**PLACE, "to": "aa"}]
    assert len(Policy(inputs=two).inputs) == 2
    apart = [
        {**PLACE, "from": "a"},
        {**PLACE, "from": "b", "prefix": "in2/"},
        {**PLACE, "from": "c", "bucket": "other"},
    ]
    assert len(Policy(outputs=apart).outputs) == 3


def test_they_are_frozen() -> None:
    one = Input(**PLACE)
    with pytest.raises((PolicyError, ValidationError)):
        one.to = "elsewhere"  # type: ignore[misc]


REACHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, "no policy has a network here"),
    ({"names": ["other.example.com"], "secrets": ["lake-reader"]}, {}, "not a name that a policy"),
    ({"names": ["s3.example.com"]}, {}, "may use the secret lake-reader"),
    ({"names": ["s3.example.com"], "secrets": ["lake-reader"]}, {"private": "10.0.0.0/8"}, "may have private"),
    (
        {"names": ["*"], "private": ["10.0.0.0/8"], "secrets": ["lake-reader"]},
        {"private": "10.0.0.0/8"},
        "with private",
    ),
]


@pytest.mark.parametrize(("reach", "more", "words"), REACHES)
@pytest.mark.parametrize("key", ["inputs", "outputs"])
def test_over_http_they_lead_no_further_than_rules(
    key: str, reach: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(PolicyError, match=rf"{key}\[0\].*{words}") as caught:
        Reach(**reach).check_policy(parse_policy({key: [{**PLACE, **more}]}))
    assert "operator" in (caught.value.remedy or "")


@pytest.mark.parametrize("key", ["inputs", "outputs"])
def test_what_the_operator_lists_may_be_named_in_them(key: str) -> None:
    reach = Reach(names=["s3.example.com"], secrets=["lake-reader"], private=["10.0.0.0/8"])
    for more in ({}, {"private": "10.0.0.0/8"}):
        reach.check_policy(parse_policy({key: [{**PLACE, **more}]}))
