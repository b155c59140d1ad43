"""Carries probes out in one live sandbox, and has each judged by what the host saw.

Law: before the first and after the last of them the controls are alive, inside and outside, or nothing is shown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dayfly.client.sandbox import AsyncSandbox
from dayfly.prove.marks import fill, token_of
from dayfly.prove.posture import EXAMINATIONS, processes_of
from dayfly.prove.probe import Probe
from dayfly.prove.program import Program, program
from dayfly.prove.verdict import Claim, Judgement, Seen, Verdict, judge, read_claim

__all__ = ["Outcome", "Scene", "Told", "distrusted", "examine", "try_all"]

TURNS = 5
"""Of the event loop, in which whoever has come to one of the servers here is taken note of."""


@dataclass(frozen=True)
class Outcome:
    """One probe, judged."""

    probe: Probe
    judgement: Judgement


class Scene(Protocol):
    """What attempts are made against, and who on the host sees them."""

    @property
    def marks(self) -> Mapping[str, Any]:
        """For the arguments of probes."""
        ...

    async def alive(self) -> str:
        """Why those who watch prove nothing; empty: they do."""
        ...

    def watch(self) -> None:
        """From now on."""
        ...

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        """What came since, and was not to come of that probe's; for one that must work, what came."""
        ...

    def late(self, probe: Probe) -> tuple[str, ...]:
        """What came of that probe's at any time, and says so itself."""
        ...

    def strays(self) -> tuple[str, ...]:
        """What came and is in no probe's ``contacts``: after the last of them, or while another one was allowed."""
        ...

    def leaked(self, output: str) -> tuple[str, ...]:
        """What of the host's, which nobody inside was told, is in there."""
        ...


Told = Callable[[Outcome], None]


async def try_all(sandbox: AsyncSandbox, scene: Scene, probes: Sequence[Probe], tell: Told) -> list[Outcome]:
    """Whatever happens to the sandbox meanwhile, every probe has an outcome. ``tell`` hears of each as it is judged; what is
    returned counts."""
    async with program(sandbox) as inside:
        before = await inside.alive() or await scene.alive()
        outcomes = []
        for probe in probes:
            outcomes.append(await _tried(inside, scene, probe, before))
            tell(outcomes[-1])
        after = await inside.alive() or _strayed(scene) or await scene.alive()
    outcomes = [_overtaken(outcome, scene.late(outcome.probe)) for outcome in outcomes]
    return distrusted(outcomes, after) if after else outcomes


def _strayed(scene: Scene) -> str:
    came = scene.strays()
    return f"somebody came, and nobody knows whose it was: {'; '.join(came)}" if came else ""


def _overtaken(outcome: Outcome, late: tuple[str, ...]) -> Outcome:
    """The same, where what it sent arrived after it was judged."""
    if outcome.judgement.verdict is not Verdict.DENIED or not late:
        return outcome
    return Outcome(outcome.probe, judge(outcome.probe, None, Seen(contacts=late)))


async def _tried(inside: Program, scene: Scene, probe: Probe, control: str) -> Outcome:
    scene.watch()
    arguments = fill(probe.arguments, {**scene.marks, "token": token_of(probe)})
    row = await inside.attempt(probe.attempt, arguments, probe.seconds)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    seen = Seen(scene.contacts(probe), scene.leaked(json.dumps(row)), control or inside.failed)
    return Outcome(probe, judge(probe, read_claim(row), seen))


def distrusted(outcomes: Sequence[Outcome], why: str) -> list[Outcome]:
    """The same, where a control after them has failed: what was denied is not shown any more."""
    changed = []
    for outcome in outcomes:
        if outcome.judgement.verdict is Verdict.DENIED:
            judgement = Judgement(Verdict.INCONCLUSIVE, f"a control failed: {why}", False)
            outcome = Outcome(outcome.probe, judgement)
        changed.append(outcome)
    return changed


def examine(sandbox: AsyncSandbox, probes: Sequence[Probe], tell: Told) -> list[Outcome]:
    """What is looked at from outside, of a sandbox that is alive."""
    watched = processes_of(sandbox.id, sandbox.limits)
    outcomes = []
    for probe in probes:
        tried, reached = EXAMINATIONS[probe.attempt](watched)
        outcomes.append(Outcome(probe, judge(probe, Claim(tried, tuple(reached)), Seen())))
        tell(outcomes[-1])
    return outcomes
