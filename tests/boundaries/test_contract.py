"""Every clause of the boundary contract, for every boundary that is shipped and every runsc that is given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dayfly.testing.boundary_contract import CLAUSES, Clause, Subject, check_boundary
from tests.turns import in_turns


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_the_fake_boundary_keeps_the_contract(clause: Clause, fake: Subject) -> None:
    await clause(fake)


@pytest.mark.gvisor
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_the_gvisor_boundary_keeps_the_contract(clause: Clause, gvisor: Subject) -> None:
    await clause(gvisor)


@pytest.mark.gvisor
@pytest.mark.parametrize("clause", in_turns(CLAUSES, 2), ids=lambda clause: clause.__name__)
async def test_a_restored_cell_keeps_the_contract(clause: Clause, restored: Subject) -> None:
    await clause(restored)


async def test_the_kit_names_the_clause_that_a_boundary_breaks(fake: Subject) -> None:
    @asynccontextmanager
    async def untidy() -> AsyncIterator[Subject]:
        yield replace(fake, traces=lambda: ["something"])

    with pytest.raises(AssertionError, match=r"^stream_carries_megabytes_both_ways_exactly: left after kill"):
        await check_boundary(untidy)
