"""Traffic in the journal: a second's worth in few entries, and none is lost at the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dayfly.egress.client import Closed, Requested
from dayfly.manager.traffic import GATHER_SECONDS, MOST_ROWS, ROWS_PER_SECOND, Traffic
from dayfly.network import MOST_PORTS, MOST_RULES, Rule
from dayfly.policy import Policy
from dayfly.spec import Denial, EndReason
from tests.manager.house import House
from tests.manager.street import Street

CLOSED = Closed("files.example.com", 443, 0, "93.184.216.34", 10, 20, 1.0, "done")
DENIAL = Denial("other.example.com", 443, "not_listed", "it is not on the list", "add a rule")


class Notes:
    """A record in memory."""

    kept = True

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, facts: dict[str, Any]) -> None:
        self.rows.append((kind, facts))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def traffic(notes: Notes) -> Traffic:
    made = Traffic()
    made.keep_in(notes)  # type: ignore[arg-type]
    return made


async def test_equal_ones_are_summed_for_a_second(traffic: Traffic, notes: Notes) -> None:
    for _ in range(3):
        traffic.closed(CLOSED)
    traffic.closed(replace(CLOSED, why="reset"))
    traffic.denied(replace(DENIAL, count=7))
    traffic.denied(DENIAL)
    await asyncio.sleep(GATHER_SECONDS / 2)
    assert notes.rows == []
    await asyncio.sleep(GATHER_SECONDS)
    place = {"host": "files.example.com", "port": 443, "rule": 0, "address": "93.184.216.34"}
    assert notes.rows == [
        ("egress.used", {**place, "why": "done", "count": 3, "sent": 30, "received": 60}),
        ("egress.used", {**place, "why": "reset", "count": 1, "sent": 10, "received": 20}),
        ("egress.denied", {"host": "other.example.com", "port": 443, "code": "not_listed", "claimed": False, "count": 8}),
    ]  # fmt: skip
    traffic.closed(CLOSED)
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert len(notes.rows) == 4, "and again, the next time"


async def test_ten_thousand_names_are_few_entries(traffic: Traffic, notes: Notes) -> None:
    for number in range(10_000):
        traffic.denied(replace(DENIAL, host=f"{number}.example.com"))
    await asyncio.sleep(4 * GATHER_SECONDS)
    assert len(notes.rows) == MOST_ROWS + 1
    assert notes.rows[-1] == ("egress.more", {"count": 10_000 - MOST_ROWS})


async def test_no_secret_is_used_unseen_behind_a_flood(traffic: Traffic, notes: Notes) -> None:
    for number in range(1000):
        traffic.denied(replace(DENIAL, host=f"{number}.example.com"))
    for path in ("/1", "/2"):
        traffic.requested(Requested("api.example.com", 443, 0, "", "GET", path, 200, "crm-token", None))
    await asyncio.sleep(4 * GATHER_SECONDS)
    assert notes.rows[-1] == ("egress.more", {"count": 1002 - MOST_ROWS, "secrets": {"crm-token": 2}})


async def test_a_loop_over_new_names_fills_no_disk(traffic: Traffic, notes: Notes) -> None:
    for number in range(3600):
        traffic.denied(replace(DENIAL, host=f"{number}.example.com", claimed=True))
        await asyncio.sleep(GATHER_SECONDS)
    assert len(notes.rows) < MOST_ROWS + 1.1 * 3600 * ROWS_PER_SECOND
    for number in range(100):
        traffic.denied(replace(DENIAL, host=f"late-{number}.example.com", claimed=True))
    traffic.closed(CLOSED)
    traffic.flush(last=True)
    assert notes.rows[-1][0] == "egress.more", "nothing is put off at the end"
    before = len(notes.rows)
    traffic.flush(last=True)
    assert len(notes.rows) == before


async def test_what_comes_before_there_is_a_record_is_in_it(notes: Notes) -> None:
    """Code that goes on from a snapshot does not wait for the journal."""
    traffic = Traffic()
    traffic.closed(CLOSED)
    traffic.denied(DENIAL)
    traffic.flush()
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert notes.rows == []
    traffic.keep_in(notes)  # type: ignore[arg-type]
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert [kind for kind, _ in notes.rows] == ["egress.used", "egress.denied"]


async def test_a_denial_stands_beside_a_claim_of_the_same(traffic: Traffic, notes: Notes) -> None:
    traffic.denied(DENIAL)
    traffic.denied(replace(DENIAL, claimed=True))
    traffic.flush()
    traffic.flush()
    assert [facts["claimed"] for _, facts in notes.rows] == [False, True]
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert len(notes.rows) == 2


async def test_what_is_gathered_at_a_sandboxs_end_is_before_the_entry_of_its_end(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    mine.life.used(CLOSED)
    mine.life._inside.denials.add(DENIAL)
    home.boundary.cells[mine.id].die(EndReason.CRASHED)
    await mine.life.ended()
    await asyncio.sleep(0.1)
    assert [kind for kind, _ in home.told(mine.id)] == [
        "sandbox.opened",
        "egress.used",
        "egress.denied",
        "sandbox.ended",
    ]


async def test_the_largest_network_leaves_room_in_the_journal(home: House) -> None:
    """An entry is bounded, and what cannot be written down does not happen: so it must fit."""
    ports = tuple(range(65535, 65535 - MOST_PORTS, -1))
    rules = [
        Rule(host=f"n{number}.{'x' * 60}.{'y' * 60}.example.com", ports=ports, protocol="tcp")
        for number in range(MOST_RULES)
    ]
    home.manager._outlet = Street().outlet
    mine = await home.tenants.create("anna", Policy(network=rules))
    small = await home.tenants.create("anna", Policy(network=rules[:1]))
    told = {made.id: home.told(made.id)[0][1]["policy"]["network"] for made in (mine, small)}
    assert told[mine.id]["count"] == MOST_RULES
    assert told[mine.id]["rules"][0] == {"host": rules[0].host, "ports": list(ports), "protocol": "tcp"}
    assert [rule["host"] for rule in told[small.id]] == [rules[0].host]


async def test_nothing_is_gathered_where_no_journal_is_kept(home: House) -> None:
    life = await home.manager.open(Policy())
    life.used(CLOSED)
    life._inside.denials.add(DENIAL)
    await life.close()
