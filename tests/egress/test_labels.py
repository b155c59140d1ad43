"""Labels that code invents under a star carry data out: they are counted where the agent has no say."""

from __future__ import annotations

from dayfly.egress.guests import Guest
from dayfly.egress.labels import MOST, PER_MINUTE, Labels
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed, Denied
from dayfly.network import Rule


def test_a_minutes_worth_at_once_and_then_as_many_a_minute() -> None:
    now = [0.0]
    labels = Labels(lambda: now[0])
    assert all(labels.admit(f"{n}.a.example") for n in range(PER_MINUTE))
    assert not labels.admit("one-more.a.example")
    assert labels.admit("0.a.example"), "a known one is always admitted"
    now[0] += 60 / PER_MINUTE
    assert labels.admit("one-more.a.example")
    assert not labels.admit("two-more.a.example")
    now[0] += 3600
    assert sum(labels.admit(f"late-{n}.a.example") for n in range(1000)) == PER_MINUTE, "patience is not saved up"


def test_there_is_an_end_of_new_ones() -> None:
    now = [0.0]
    labels = Labels(lambda: now[0])
    admitted = 0
    for n in range(2 * MOST):
        now[0] += 60
        admitted += labels.admit(f"{n}.a.example")
    assert admitted == MOST


async def test_only_rules_with_a_star_count_and_the_answer_says_why() -> None:
    guest = Guest()
    guest.admit(
        Terms(rules=(Rule(host="*.files.example"), Rule(host="listed.files.example"), Rule(host="api.example")))
    )
    verdicts = [guest.judge(f"n{n}.files.example", 443) for n in range(PER_MINUTE + 5)]
    assert [isinstance(one, Allowed) for one in verdicts] == [True] * PER_MINUTE + [False] * 5
    refused = verdicts[-1]
    assert isinstance(refused, Denied)
    assert refused.code == "too_many_names"
    for name in ("n0.files.example", "listed.files.example", "api.example"):
        assert isinstance(guest.judge(name, 443), Allowed), name
