"""A proof that nothing could turn red would prove nothing: each mutant is caught, by the probe that is there for it."""

from __future__ import annotations

import asyncio

import pytest

from dayfly.prove import ALL, Probe, Proof, Verdict, prove
from tests.prove.mutants import MUTANTS, Mutant
from tests.turns import quarter

pytestmark = pytest.mark.gvisor

BY_ID = {probe.id: probe for probe in ALL}

CONTROL = {"named": "named.listed", "supplied": "supplied.read"}
"""Without which nothing of that place is shown."""


def proved(mutant: Mutant) -> Proof:
    wanted = BY_ID[mutant.caught_by]
    first = CONTROL.get(wanted.place)
    probes: list[Probe] = [*([BY_ID[first]] if first else []), wanted]

    async def carried_out() -> Proof:
        async with mutant.ground() as ground:
            return await prove(ground, probes, chosen="quick")

    return asyncio.run(carried_out())


@pytest.mark.parametrize("mutant", quarter(MUTANTS), ids=lambda mutant: mutant.name)
def test_a_missing_wall_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    if not mutant.possible():
        pytest.skip("no cgroup is delegated to this user")
    mutant.remove(monkeypatch)
    rows = {row.id: row for row in proved(mutant).rows}
    assert rows[mutant.caught_by].verdict is Verdict.REACHED, rows[mutant.caught_by].why


def test_there_are_as_many_as_were_promised() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 25
