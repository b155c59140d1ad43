"""A proof as a whole, in real sandboxes: green on this machine, red where something lies, dies or is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dayfly.cli.proving import Here
from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import HostError
from dayfly.network import Rule
from dayfly.prove import (
    ALL,
    RULES,
    Expected,
    Place,
    Probe,
    Proof,
    Property,
    Row,
    Severity,
    Verdict,
    World,
    prove,
)
from dayfly.prove.floods import flood
from dayfly.prove.trials import Outcome
from dayfly.prove.world import DENIED, TCP
from tests.prove.mutants import POLICY
from tests.turns import quarter

pytestmark = pytest.mark.gvisor

BY_ID = {probe.id: probe for probe in ALL}


def proved(probes: Sequence[Probe], ground: Here | None = None, told: list[Outcome] | None = None) -> Proof:
    async def carried_out() -> Proof:
        async with ground or Here(POLICY) as made:
            return await prove(made, probes, chosen="quick", tell=(told if told is not None else []).append)

    return asyncio.run(carried_out())


def rows(proof: Proof) -> dict[str, Row]:
    return {row.id: row for row in proof.rows}


def test_a_program_that_says_it_was_denied_while_it_gets_through_is_not_believed() -> None:
    """It reaches a host, and says nothing of it: the host saw it."""
    liar = replace(
        BY_ID["allow-list.unlisted.connect"],
        attempt="doors.spoken",
        arguments={"hosts": [DENIED], "port": TCP, "door": "connect", "wait": False},
    )
    wide = Here(POLICY, rules=(*RULES, Rule(host=DENIED, ports=[TCP], protocol="tcp")))
    found = rows(proved([BY_ID["named.listed"], liar], wide))[liar.id]
    assert found.verdict is Verdict.REACHED
    assert "the host saw" in found.why


KILLS = Probe(
    "x.kills", "End everything that this user runs", Property.BOUNDARY, Severity.HIGH, "processes.stopped", {"target": -1, "number": 9}
)  # fmt: skip


def test_a_crash_of_the_program_turns_its_group_red() -> None:
    """Also what was denied before it: nobody knows what the program was by then."""
    before, after = BY_ID["network.interfaces"], BY_ID["network.routes"]
    found = rows(proved([before, KILLS, after]))
    assert {row.verdict for row in found.values()} == {Verdict.INCONCLUSIVE}
    assert not any(row.green for row in found.values())


def test_an_attempt_that_hangs_or_fails_is_inconclusive_and_the_next_one_goes_on() -> None:
    hangs = replace(
        BY_ID["useful.processes"],
        id="x.hangs",
        expected=Expected.DENIED,
        attempt="useful.processes",
        arguments={"number": 10_000},
        seconds=0.3,
    )
    fails = replace(BY_ID["network.interfaces"], id="x.fails", arguments={})
    found = rows(proved([hangs, fails, BY_ID["network.routes"]]))
    assert found["x.hangs"].verdict is Verdict.INCONCLUSIVE
    assert "not done in" in found["x.hangs"].why
    assert found["x.fails"].verdict is Verdict.INCONCLUSIVE
    assert "TypeError" in found["x.fails"].why
    assert found["network.routes"].verdict is Verdict.DENIED


class Nowhere(Here):
    """Where no sandbox can be made."""

    def closed(self) -> AsyncSandbox:
        raise HostError("there is no runsc", remedy="run: dayfly setup")

    def named(self, elsewhere: World) -> AsyncSandbox:
        raise HostError("there is no runsc", remedy="run: dayfly setup")


def test_where_no_sandbox_can_be_made_nothing_is_green() -> None:
    probes = [
        BY_ID[name]
        for name in ("network.routes", "cross-sandbox.tcp", "named.listed", "dns.named.unlisted", "output.flood")
    ]
    proof = proved(probes, Nowhere(POLICY))
    assert {row.verdict for row in proof.rows} == {Verdict.INCONCLUSIVE}
    assert all("no runsc" in row.why for row in proof.rows)
    assert not proof.green


def test_one_place_takes_nothing_from_the_next() -> None:
    """A server closes its manager, and the floods come last."""
    names = ("network.interfaces", "cross-sandbox.files", "api.unknown", "named.listed", "resource.flood.threads")
    assert [row.why for row in proved([BY_ID[name] for name in names]).red] == []


def test_a_proof_without_a_row_is_not_green() -> None:
    assert not proved([]).green


@pytest.mark.parametrize("name", quarter([probe.id for probe in ALL if probe.place is Place.ALONE]))
def test_a_flood_is_measured(name: str) -> None:
    async def flooded() -> Outcome:
        async with Here(POLICY) as ground:
            return await flood(ground.closed, BY_ID[name])

    outcome = asyncio.run(flooded())
    assert outcome.judgement.verdict is Verdict.DENIED, outcome.judgement.why


def test_a_control_that_is_dead_at_the_end_takes_what_was_denied_along() -> None:
    """The listed host answers at first and not in the end: nobody knows since when nothing got through."""

    class Closing(Here):
        def named(self, elsewhere: World) -> AsyncSandbox:
            seen = elsewhere.contacts

            def watch_once(probe: Probe) -> tuple[str, ...]:
                if probe.id == "dns.named.unlisted":
                    elsewhere.names.table.clear()
                    elsewhere.watch = elsewhere.visits.clear  # type: ignore[method-assign]
                return seen(probe)

            elsewhere.contacts = watch_once  # type: ignore[method-assign]
            return super().named(elsewhere)

    found = rows(proved([BY_ID["named.listed"], BY_ID["dns.named.unlisted"]], Closing(POLICY)))
    assert found["named.listed"].green
    assert found["dns.named.unlisted"].verdict is Verdict.INCONCLUSIVE
