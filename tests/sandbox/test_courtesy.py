"""Who uses much CPU lets others go first, and nobody for ever: over a clock that is held, and a cell that says what it used."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import SandboxEnded
from dayfly.sandbox.courtesy import BURST, LONGEST, PER_CALL, SHARE, SHORTEST, Credit
from dayfly.sandbox.deadlines import SILENCE_SECONDS
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedCell
from tests.sandbox.living import DONE, living

LIMITS = {"idle_seconds": 3600, "lifetime_seconds": 7200, "run_seconds": 3600}
SPENT = BURST + 0.01


def spent() -> Credit:
    """Of one that has used up what it had, at the time 0."""
    credit = Credit()
    credit.look(0.0, 0.0)
    credit.look(0.0, SPENT)
    assert credit.behind
    return credit


def test_the_start_costs_nothing_and_what_comes_after_does() -> None:
    credit = Credit()
    credit.look(5.0, 100.0)
    assert not credit.behind
    credit.look(5.0, 100.0 + BURST / 2)
    assert not credit.behind
    credit.look(5.0, 100.0 + SPENT)
    assert credit.behind


def test_short_runs_one_after_the_other_never_step_behind() -> None:
    credit, used = Credit(), 0.0
    for number in range(1000):
        credit.call(number * 0.005)
        used += 0.0024
        credit.look(number * 0.005, used)
        assert not credit.behind


def test_a_call_brings_it_forward_for_a_moment() -> None:
    credit = spent()
    credit.call(0.0)
    assert not credit.behind
    credit.look(0.0, SPENT + 2 * PER_CALL)
    assert credit.behind


def test_many_calls_buy_a_hog_no_more_than_half_a_cpu() -> None:
    credit, used, forward = spent(), SPENT, 0.0
    for number in range(1, 10_001):
        now = number * 0.001
        credit.call(now)
        if not credit.behind:
            used, forward = used + 0.001, forward + 0.001
        credit.look(now, used)
    assert 0.4 * 10 < forward < 0.6 * 10


@pytest.mark.parametrize(("share", "behind"), [(0.0, False), (SHARE / 2, False), (SHARE, True), (1.0, True)])
def test_whoever_got_less_than_its_share_is_brought_forward(share: float, behind: bool) -> None:
    """``share``: CPUs that it got while others went first."""
    credit, forward = spent(), False
    for second in range(1, 11):
        credit.look(float(second), SPENT + share * second)
        forward |= not credit.behind
    assert forward is not behind


@given(st.lists(st.one_of(st.none(), st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)))))
def test_what_is_in_hand_is_bounded_whatever_happens(steps: list[tuple[float, float] | None]) -> None:
    credit, now, used = Credit(), 0.0, 0.0
    for step in steps:
        if step is None:
            credit.call(now)
        else:
            now, used = now + step[0], used + step[1]
            credit.look(now, used)
        assert -BURST <= credit.left <= BURST
        assert credit.left > 0 or credit.behind


async def burn(cell: ScriptedCell, seconds: float, cpus: float = 1.0) -> None:
    """Time passes while it uses so many CPUs."""
    for _ in range(round(seconds / SHORTEST)):
        cell.cpu_seconds += cpus * SHORTEST
        await asyncio.sleep(SHORTEST)


async def stopped(asked: Asked) -> None:
    await asked.finish(**DONE)


async def forever(asked: Asked) -> None:
    if asked.params["code"] == "long":
        await asyncio.sleep(3000)
    await asked.finish(**DONE)


async def test_a_run_that_goes_on_steps_behind_and_a_short_one_beside_it_brings_it_forward() -> None:
    async with living(forever, **LIMITS) as (life, cell):
        running = asyncio.ensure_future(life.execute("long"))
        await burn(cell, 2 * BURST + 2 * SHORTEST)
        assert cell.behind
        assert (await life.execute("short")).ok
        assert not cell.behind
        await burn(cell, PER_CALL + 3 * SHORTEST)
        assert cell.behind
        running.cancel()


@pytest.mark.parametrize("share", [SHARE / 100, 0.0])
async def test_one_that_starves_behind_the_others_gets_a_moment_now_and_then(share: float) -> None:
    async with living(forever, **LIMITS) as (life, cell):
        running = asyncio.ensure_future(life.execute("long"))
        await burn(cell, 1.0)
        assert cell.behind
        await burn(cell, 8 * LONGEST, cpus=share)
        assert not cell.behind
        await burn(cell, 1.0)
        assert cell.behind, "it is still looked at"
        running.cancel()


async def test_calls_buy_a_hog_with_many_cpus_no_more_either() -> None:
    async with living(stopped, **LIMITS, cpus=4) as (life, cell):
        forward, seconds = 0.0, 20
        for _ in range(seconds * 100):
            assert (await life.execute("1")).ok
            if not cell.behind:
                cell.cpu_seconds += 4 * 0.01
                forward += 4 * 0.01
            await asyncio.sleep(0.01)
        assert forward < 0.7 * seconds


async def test_a_call_on_one_that_has_ended_starts_nothing() -> None:
    async with living(stopped, **LIMITS) as (life, cell):
        assert (await life.execute("1")).ok
        await life.kill(EndReason.STOPPED, "")
        with suppress(SandboxEnded):
            await life.list_processes()
        life.call_begins()
        life.call_ends()
        looks: list[float] = []
        cell.usage = lambda: looks.append(0.0)  # type: ignore[assignment,return-value]
        await asyncio.sleep(10 * LONGEST)
        assert not looks


async def test_one_that_is_frozen_is_not_looked_at_until_somebody_calls() -> None:
    async with living(stopped, **LIMITS) as (life, cell):
        cell.agent.busy = False
        assert (await life.execute("1")).ok
        await asyncio.sleep(10 * LONGEST)
        assert life._courtesy._timer is None
        assert (await life.execute("1")).ok
        assert life._courtesy._timer is not None


async def test_where_nobody_can_step_behind_nobody_is_given_time_for_it() -> None:
    async with living(forever, **LIMITS) as (life, cell):
        cell.step_behind = lambda behind: False  # type: ignore[method-assign]
        running = asyncio.ensure_future(life.execute("long"))
        await burn(cell, 1.0)
        assert not life._courtesy.was_behind(SILENCE_SECONDS)
        running.cancel()


async def test_an_agent_that_may_have_waited_for_others_is_given_more_time_to_answer_but_not_for_ever() -> None:
    async with living(forever, **LIMITS) as (life, cell):
        running = asyncio.ensure_future(life.execute("long"))
        await burn(cell, 1.0)
        assert cell.behind
        fell_silent = asyncio.get_running_loop().time()
        cell.agent.flush = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
        done = await running
        silent = asyncio.get_running_loop().time() - fell_silent
        assert done.end_reason is EndReason.UNRESPONSIVE
        assert SILENCE_SECONDS < silent < 2 * SILENCE_SECONDS + 4 * LONGEST, "it used nothing, so it came forward soon"
