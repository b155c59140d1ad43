"""The comparison's page: what each target was, what was seen, and what was not as it should be."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from bench.comparison import Absent, page

from dayfly.prove import Basis, Condition, Expected, Probe, Proof, Subject, Verdict
from dayfly.prove.proof import row_of
from dayfly.prove.trials import Outcome
from dayfly.prove.verdict import Judgement
from tests.prove.targets.subjects import BY_ID

DENIED = Judgement(Verdict.DENIED, "9 ways tried", True, Basis.SEEN)
REACHED = Judgement(Verdict.REACHED, "it | got <through>", False, Basis.CLAIMED)
MUTE = Judgement(Verdict.INCONCLUSIVE, "nothing", False)
IDS = ("dns.library", "dns.others", "useful.threads")


def proof(name: str, judged: Sequence[Judgement]) -> Proof:
    chosen: list[Probe] = [BY_ID[one] for one in IDS]
    return Proof(
        at=datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC), seconds=1.5, set="quick", image="", policy_digest="",
        conditions=(Condition(name="kernel", value="6.18"),), limits=(),
        rows=tuple(row_of(Outcome(probe, one)) for probe, one in zip(chosen, judged, strict=True)),
        target=Subject(name=name, version="1|2", configured="--wall", source="its manual", place="box"),
    )  # fmt: skip


WORKS = Judgement(Verdict.REACHED, "8 threads ran", True)


def test_it_says_what_was_denied_reached_and_not_shown() -> None:
    said = page(
        [proof("one", [DENIED, DENIED, WORKS]), proof("two", [REACHED, MUTE, MUTE])], [Absent("three", "no key")]
    )
    assert "| property | one | two |" in said
    assert "| dns | 2 denied (2 seen) | 1 reached, 1 inconclusive |" in said
    assert "| useful | 1 of 1 work | 0 of 1 work |" in said
    assert "(`dns.library`) |  | reached, claimed |" in said
    assert "(`useful.threads`) |  | does not work |" in said
    assert "- **three**: not run here: no key" in said
    assert "2026-12-01" in said
    assert "1\\|2" in said, "a version is text in a cell"


def test_who_ran_and_could_be_asked_nothing_says_so() -> None:
    said = page(
        [proof("one", [DENIED, DENIED, WORKS])], [Absent("two", "no sockets", proof("two", [MUTE, MUTE, MUTE]))]
    )
    assert "- **two**: ran (version 1|2), and could be asked nothing: no sockets" in said
    assert BY_ID["useful.threads"].expected is Expected.ALLOWED
