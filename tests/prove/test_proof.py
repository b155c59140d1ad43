"""The report: a value that goes to JSON and back, and a page that shows it and nothing that came out of a sandbox does more than that."""

from __future__ import annotations

import datetime
from html.parser import HTMLParser

import pytest

from dayfly.prove import Condition, Proof, Row, Verdict
from dayfly.prove.conditions import aged, machine
from dayfly.prove.page import page
from dayfly.prove.proof import Kept

ROW = Row(id="dns.x", title="Resolve", property="dns", severity="critical", place="closed", expected="denied", verdict=Verdict.DENIED, green=True,
          why="2 ways tried", seen_by=("its name server",), source="BT", question=1)  # fmt: skip
BAD = ROW.model_copy(
    update={"id": "dns.y", "verdict": Verdict.REACHED, "green": False, "why": "<script>alert(1)</script>\u202e\x1b[2J"}
)
LOST = ROW.model_copy(update={"id": "dns.z", "verdict": Verdict.INCONCLUSIVE, "green": False})
CONTROL = ROW.model_copy(update={"id": "named.x", "expected": "allowed", "verdict": Verdict.REACHED})


def proof(*rows: Row, conditions: tuple[Condition, ...] = ()) -> Proof:
    return Proof(
        at=datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.UTC), seconds=3.5, set="quick", image="data", policy_digest="sha256:0",
        conditions=conditions, limits=(Kept(name="memory", value=1.0, enforcement="enforced", how="cgroup"),), rows=rows,
    )  # fmt: skip


def test_it_goes_to_json_and_back() -> None:
    made = proof(ROW, BAD, conditions=(Condition(name="runsc", value="1", state="amber", remedy="newer"),))
    assert Proof.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("rows", "state", "green"),
    [
        ((ROW, CONTROL), "green", True),
        ((ROW, BAD), "green", False),
        ((ROW, LOST), "green", False),
        ((), "green", False),
        ((ROW,), "amber", True),
        ((ROW,), "red", False),
    ],
)
def test_it_is_green_where_all_is_as_it_must_be(rows: tuple[Row, ...], state: str, green: bool) -> None:
    made = proof(*rows, conditions=(Condition.model_validate({"name": "runsc", "value": "1", "state": state}),))
    assert made.green is green


def test_a_question_is_answered_by_what_must_be_denied() -> None:
    assert proof(ROW, CONTROL).answer(1) == ("no", (ROW,))
    assert proof(ROW, BAD).answer(1)[0] == "yes"
    assert proof(ROW, LOST).answer(1)[0] == "not shown"
    assert proof(ROW).answer(4) == ("not shown", ())


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_everything_and_loads_nothing() -> None:
    found = Tags(page(proof(ROW, BAD, LOST, conditions=(Condition(name="kernel", value="6.18 <b>"),))))
    assert found.tags <= {"html", "meta", "title", "style", "h1", "h2", "p", "span", "table", "tr", "td", "small"}
    assert found.attributes <= {"lang", "charset", "class", "id"}
    for wanted in (
        "dns.x",
        "dns.y",
        "dns.z",
        "reached",
        "inconclusive",
        "6.18 <b>",
        "memory",
        "<script>alert(1)</script>",
    ):
        assert wanted in found.text
    assert "\u202e" not in found.text
    assert "\x1b" not in found.text


TODAY = datetime.date(2026, 11, 30)


@pytest.mark.parametrize(
    ("made", "state"),
    [
        (datetime.date(2026, 11, 1), "green"),
        (datetime.date(2025, 11, 30), "green"),
        (datetime.date(2025, 11, 29), "amber"),
        (None, "amber"),
    ],
)
def test_an_old_part_is_amber(made: datetime.date | None, state: str) -> None:
    found = aged("runsc", "1", made, TODAY, "get a newer one")
    assert found.state == state
    assert bool(found.remedy) is (state == "amber")


def test_a_machine_says_what_it_has_on() -> None:
    assert {one.name for one in machine()} == {"kernel", "SMT", "CPU weaknesses"}
