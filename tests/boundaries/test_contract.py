"""Every clause of the boundary contract, for every boundary that is shipped and every runsc that is given."""

from __future__ import annotations

import pytest

from dayfly.testing.boundary_contract import CLAUSES, Clause, Subject


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_the_fake_boundary_keeps_the_contract(clause: Clause, fake: Subject) -> None:
    await clause(fake)


@pytest.mark.gvisor
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
async def test_the_gvisor_boundary_keeps_the_contract(clause: Clause, gvisor: Subject) -> None:
    await clause(gvisor)
