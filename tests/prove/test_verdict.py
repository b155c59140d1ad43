"""The judge: what the host saw decides, what code says counts only against itself, and what proves nothing is never green."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dayfly.prove.page import page
from dayfly.prove.probe import Expected, Probe, Property, Severity
from dayfly.prove.proof import Proof, row_of
from dayfly.prove.trials import Outcome
from dayfly.prove.verdict import MOST_REACHED, MOST_TEXT, MOST_TRIED, Basis, Claim, Seen, Verdict, judge, read_claim

PROBE = Probe("network.x", "Reach something", Property.NETWORK, Severity.CRITICAL, "network.tcp", seen_by=("a server",))
USEFUL = replace(PROBE, expected=Expected.ALLOWED)
NOTHING = Seen()
CAME = Seen(contacts=("TCP on loopback",))
LEAKED = Seen(leaked=("the host's file",))
DEAD = Seen(control="the server is dead")
TRIED = Claim(3)
THROUGH = Claim(3, ("127.0.0.1",))
FAILED = Claim(failed="it was not done in 10 s")


@pytest.mark.parametrize(
    ("claim", "seen", "verdict"),
    [
        (TRIED, NOTHING, Verdict.DENIED),
        (THROUGH, NOTHING, Verdict.REACHED),
        (TRIED, CAME, Verdict.REACHED),  # it says that it was denied, and the host saw it
        (TRIED, LEAKED, Verdict.REACHED),
        (None, CAME, Verdict.REACHED),  # it said nothing, and the host saw it
        (FAILED, LEAKED, Verdict.REACHED),
        (None, NOTHING, Verdict.INCONCLUSIVE),
        (FAILED, NOTHING, Verdict.INCONCLUSIVE),
        (Claim(0), NOTHING, Verdict.INCONCLUSIVE),
        (TRIED, DEAD, Verdict.INCONCLUSIVE),
        (THROUGH, DEAD, Verdict.REACHED),  # against itself it is believed even then
    ],
)
def test_a_denial_is_what_nobody_saw_and_the_program_tried_while_the_controls_lived(
    claim: Claim | None, seen: Seen, verdict: Verdict
) -> None:
    judgement = judge(PROBE, claim, seen)
    assert judgement.verdict is verdict
    assert judgement.green is (verdict is Verdict.DENIED)
    assert judgement.why


@pytest.mark.parametrize(
    ("claim", "seen", "verdict"),
    [
        (THROUGH, CAME, Verdict.REACHED),
        (THROUGH, NOTHING, Verdict.INCONCLUSIVE),  # it says so, and the host saw nobody
        (TRIED, NOTHING, Verdict.DENIED),
        (None, CAME, Verdict.INCONCLUSIVE),
        (FAILED, CAME, Verdict.INCONCLUSIVE),
    ],
)
def test_what_must_work_has_worked_where_the_host_saw_it(claim: Claim | None, seen: Seen, verdict: Verdict) -> None:
    judgement = judge(USEFUL, claim, seen)
    assert judgement.verdict is verdict
    assert judgement.green is (verdict is Verdict.REACHED)


@pytest.mark.parametrize(
    ("seen_by", "claim", "seen", "basis"),
    [
        (("a server",), TRIED, NOTHING, Basis.SEEN),  # it would have seen who came
        ((), TRIED, NOTHING, Basis.CLAIMED),
        ((), TRIED, Seen(watched=True), Basis.SEEN),
        (("a server",), TRIED, Seen(watched=False), Basis.CLAIMED),  # that one is on another machine
        ((), TRIED, CAME, Basis.SEEN),
        ((), TRIED, LEAKED, Basis.SEEN),
        (("a server",), THROUGH, NOTHING, Basis.CLAIMED),  # against itself, and nobody saw it
        (("a server",), FAILED, NOTHING, Basis.CLAIMED),
    ],
)
def test_a_verdict_says_whose_word_it_rests_on(
    seen_by: tuple[str, ...], claim: Claim, seen: Seen, basis: Basis
) -> None:
    assert judge(replace(PROBE, seen_by=seen_by), claim, seen).basis is basis


def test_what_nobody_on_the_host_can_see_is_as_the_program_says() -> None:
    assert judge(replace(USEFUL, seen_by=()), THROUGH, NOTHING).green


def test_figures_of_the_hosts_own_are_shown() -> None:
    assert judge(PROBE, Claim(1, told="12 of 256 alive"), NOTHING).why == "12 of 256 alive"


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=5) | some.dictionaries(some.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)
fields = some.fixed_dictionaries({}, optional=dict.fromkeys(("tried", "reached", "failed", "denied", "told"), values))


@given(values | fields)
def test_whatever_the_program_says_is_a_bounded_claim_or_none(row: object) -> None:
    claim = read_claim(row)
    if claim is None:
        return
    assert claim.tried >= 0
    assert len(claim.reached) <= MOST_REACHED
    assert all(isinstance(item, str) and len(item) <= MOST_TEXT for item in (*claim.reached, claim.failed))
    assert claim.told == "", "figures are the host's"
    assert claim.tried <= MOST_TRIED
    "".join((*claim.reached, claim.failed)).encode()  # can be written


@pytest.mark.parametrize(
    "row", [{"tried": 1, "reached": ["\ud800"]}, {"failed": "\udfff"}, {"tried": 10**4000, "reached": []}]
)
def test_a_report_can_be_written_whatever_the_program_says(row: object) -> None:
    judgement = judge(PROBE, read_claim(row), NOTHING)
    proof = Proof(
        at=datetime.datetime.now(datetime.UTC),
        seconds=1.0,
        set="quick",
        image="python",
        policy_digest="",
        conditions=(),
        limits=(),
        rows=(row_of(Outcome(PROBE, judgement)),),
    )
    assert Proof.model_validate_json(proof.model_dump_json()) == proof
    page(proof).encode()
    assert len(judgement.why) <= MOST_TEXT


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        "denied",
        {"denied": True},
        {"tried": True, "reached": []},
        {"tried": 1, "reached": "no"},
        {"tried": "1", "reached": []},
    ],
)
def test_what_is_no_claim_denies_nothing(row: object) -> None:
    assert read_claim(row) is None
    assert judge(PROBE, read_claim(row), NOTHING).verdict is Verdict.INCONCLUSIVE


def test_what_is_nested_too_deep_to_be_written_is_a_claim_nevertheless() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert read_claim({"tried": 1, "reached": [deep]}) == Claim(1, ("nested too deep",))
