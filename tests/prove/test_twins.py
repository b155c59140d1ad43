"""Restores of a template's own snapshot: what it has loaded is compared too."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dayfly.cli.proving import Here
from dayfly.policy import Policy
from dayfly.prove.catalogue.restored import PROBES
from dayfly.prove.twins import draw_in_both
from dayfly.prove.verdict import Verdict
from tests.prove.mutants import unrenewed

NUMPYS = replace(PROBES[0], arguments={"drawn": ["numpy"]})
"""It shows nothing where nobody has loaded numpy."""


def drawn_alike(preload: tuple[str, ...]) -> tuple[Verdict, str]:
    async def look() -> tuple[Verdict, str]:
        async with Here(Policy(image="data"), preload=preload) as here, here.twins() as (one, other):
            (outcome,) = await draw_in_both(one, other, [NUMPYS], lambda _: None)
        return outcome.judgement.verdict, outcome.judgement.why

    return asyncio.run(look())


@pytest.mark.gvisor
def test_a_module_that_a_template_has_loaded_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn_alike(("numpy.random",))[0] is Verdict.DENIED
    unrenewed(monkeypatch)
    verdict, why = drawn_alike(("numpy.random",))
    assert verdict is Verdict.REACHED
    assert "numpy" in why
