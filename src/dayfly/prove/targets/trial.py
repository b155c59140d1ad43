"""Carries probes out in a target, one run for each, and has each judged by what was seen meanwhile.

Law: before the first and after the last the target answers a question that nobody could foresee and those who watch are alive, or nothing is shown.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping, Sequence

from dayfly.prove.marks import fill, token_of
from dayfly.prove.probe import Probe
from dayfly.prove.targets import text
from dayfly.prove.targets.running import Output, run
from dayfly.prove.targets.scene import View
from dayfly.prove.targets.target import Target
from dayfly.prove.trials import TURNS, Outcome, distrusted
from dayfly.prove.verdict import Claim, Seen, judge, read_claim

__all__ = ["Trial", "version_of"]

MOST_VERSION = 100
"""Characters of what a target says its version is."""

VERSION_SECONDS = 30.0
"""For a program to say its version: Python starts, and imports much."""


class Trial:
    """``tell`` hears of every probe as it is judged. ``variables``: more of them, of whoever starts the target."""

    def __init__(
        self, target: Target, view: View, tell: Callable[[Outcome], None], variables: Mapping[str, str]
    ) -> None:
        self._target, self._view, self._tell = target, view, tell
        self._environment = {**os.environ, **target.environment, **variables}

    async def carry_out(self, probes: Sequence[Probe]) -> list[Outcome]:
        """Whatever the target does, every probe has an outcome."""
        dead = await self._dead()
        if dead:
            return [self._judged(probe, Output(), dead) for probe in probes]
        outcomes = [await self._tried(probe) for probe in probes]
        after = self._strayed() or await self._dead()
        outcomes = [self._overtaken(outcome) for outcome in outcomes]
        return distrusted(outcomes, after) if after else outcomes

    async def _dead(self) -> str:
        """Why nothing can be shown; empty: all is alive."""
        word = secrets.token_hex(16)
        said = await self._run(text.challenge(word), 0.0)
        if why := text.sign_of_life(said, word):
            return why
        self._view.watch()
        return await self._view.alive()

    async def _run(self, program: bytes, seconds: float) -> Output:
        return await run(self._target.command, program, seconds + self._target.start_seconds, self._environment)

    async def _tried(self, probe: Probe) -> Outcome:
        self._view.watch()
        arguments: Mapping[str, object] = fill(probe.arguments, {**self._view.marks, "token": token_of(probe)})
        said = await self._run(text.attempt(probe.attempt, arguments, probe.seconds), probe.seconds)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return self._judged(probe, said, "")

    def _judged(self, probe: Probe, said: Output, control: str) -> Outcome:
        view = self._view
        leaked = view.leaked(said.stdout + said.stderr)
        seen = Seen(view.contacts(probe), leaked, control, view.watched(probe))
        outcome = Outcome(probe, judge(probe, _claim(said), seen))
        self._tell(outcome)
        return outcome

    def _strayed(self) -> str:
        came = self._view.strays()
        return f"somebody came, and nobody knows whose it was: {'; '.join(came)}" if came else ""

    def _overtaken(self, outcome: Outcome) -> Outcome:
        """The same, where what it sent arrived after it was judged."""
        late = self._view.late(outcome.probe)
        if not late or not outcome.judgement.green:
            return outcome
        return Outcome(outcome.probe, judge(outcome.probe, None, Seen(contacts=late)))


def _claim(said: Output) -> Claim | None:
    """What its program claims, or why there is nothing to read."""
    if said.why:
        return Claim(failed=said.why)
    claim = read_claim(text.row_in(said))
    return claim or read_claim({"failed": said.last_line()})


async def version_of(target: Target) -> str:
    """As it says itself; bounded, and on one line."""
    said = await run(target.version, b"", VERSION_SECONDS, {**os.environ, **target.environment})
    lines = [line.strip() for line in said.stdout.splitlines() if line.strip()]
    return lines[0][:MOST_VERSION] if lines else "unknown"
