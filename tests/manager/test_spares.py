"""Spares over scripted agents, on a held clock: claims, replacements, ages and refusals."""

from __future__ import annotations

import ast
import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dayfly.errors import BoundaryUnusable, PolicyError
from dayfly.limits import Limits
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.spares import FIRST_PAUSE, WARM_SECONDS, Spares
from dayfly.manager.templates import Template, fits, preloading
from dayfly.policy import Policy
from dayfly.sandbox.rest import FREEZE_SECONDS
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedBoundary, ScriptedCell, scripted_spec
from tests.sandbox.living import DONE

Script = Callable[[Asked], Any]


async def honest(asked: Asked) -> None:
    await asked.finish(**(DONE if asked.op == "execute" else {}))


async def warming(asked: Asked) -> bool:
    """Answer what a spare is asked before it is anybody's; whether this was it."""
    mine = asked.op == "execute" or not asked.params["env"]
    if mine:
        await honest(asked)
    return mine


class Opener:
    """Opens scripted sandboxes, or fails when ``refuses``."""

    def __init__(self, script: Script = honest) -> None:
        self.script = script
        self.cells: list[ScriptedCell] = []
        self.attempts = 0
        self.refuses = False

    async def __call__(self, policy: Policy) -> RecordedLife:
        self.attempts += 1
        if self.refuses:
            raise BoundaryUnusable("no room")
        boundary = ScriptedBoundary(self.script)
        life = await RecordedLife.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
        self.cells.append(boundary.cell)
        return life


@asynccontextmanager
async def kept(opener: Opener, spares: int = 2, **more: Any) -> AsyncIterator[Spares]:
    found = Spares(Template("t", Policy(), spares, **more), opener)
    try:
        yield found
    finally:
        await found.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_claim_gets_a_spare_with_its_own_policy_and_environment_and_another_takes_its_place() -> None:
    configured: list[dict[str, Any]] = []

    async def script(asked: Asked) -> None:
        if not await warming(asked):
            configured.append(asked.params)
            await asked.finish()

    opener = Opener(script)
    async with kept(opener) as spares:
        await spares.full()
        policy = Policy(limits=Limits(run_seconds=7, idle_seconds=30))
        life = await spares.claim(policy, {"WHO": "anna"})
        assert life is not None
        assert (life.policy, configured[0]["env"]) == (policy, {"WHO": "anna"})
        assert {limit.name: limit.value for limit in life.limits}["run_seconds"] == 7
        await spares.full()
        assert opener.attempts == 3
        begun = now()
        end = await life.ended()  # its clock began with the claim
        assert (end.reason, round(now() - begun)) == (EndReason.IDLE_TIMEOUT, 30)


async def test_no_spare_is_given_twice() -> None:
    async with kept(Opener(), 4) as spares:
        await spares.full()
        lives = await asyncio.gather(*(spares.claim(Policy(), {}) for _ in range(4)))
        assert len({id(life) for life in lives} - {id(None)}) == 4
        for life in lives:
            assert life is not None
            await life.close()


async def test_without_a_spare_there_is_none() -> None:
    async with kept(Opener(), 0) as spares:
        assert await spares.claim(Policy(), {}) is None


async def test_a_spare_that_does_not_answer_is_destroyed_and_the_next_one_is_taken() -> None:
    async def script(asked: Asked) -> None:
        if not await warming(asked) and asked.agent is not opener.cells[0].agent:
            await asked.finish()

    opener = Opener(script)
    async with kept(opener) as spares:
        await spares.full()
        life = await spares.claim(Policy(), {"A": "1"})
        assert life is not None
        assert opener.cells[0].kills == [(EndReason.CRASHED, "it did not answer when it was claimed")]
        assert opener.cells[1].kills == []
        await life.close()


async def test_a_cancelled_claim_leaves_no_sandbox_to_anybody() -> None:
    async def silent(asked: Asked) -> None:
        if not await warming(asked):
            await asyncio.sleep(1000)

    opener = Opener(silent)
    async with kept(opener, 1) as spares:
        await spares.full()
        claim = asyncio.ensure_future(spares.claim(Policy(), {"A": "1"}))
        await asyncio.sleep(0.1)
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        assert opener.cells[0].kills


async def test_one_that_ends_by_itself_is_replaced() -> None:
    opener = Opener()
    async with kept(opener) as spares:
        await spares.full()
        opener.cells[0].die(EndReason.BOUNDARY_LOST)
        while opener.attempts < 3:
            await asyncio.sleep(0.1)
        await spares.full()
        life = await spares.claim(Policy(), {})
        assert life is not None
        assert life.end_reason is None
        await life.close()


async def test_spares_are_retired_by_age_and_not_by_the_policys_clocks() -> None:
    opener = Opener()
    async with kept(opener, 1, spare_seconds=5000.0) as spares:
        await spares.full()
        await asyncio.sleep(4990)
        assert (opener.attempts, opener.cells[0].kills) == (1, [])
        await asyncio.sleep(20)
        await spares.full()
        assert opener.attempts == 2
        assert opener.cells[0].kills == [(EndReason.STOPPED, "")]


async def test_spares_of_what_has_changed_are_given_to_nobody_not_even_one_that_was_just_being_made() -> None:
    may_open = asyncio.Event()

    class Slow(Opener):
        async def __call__(self, policy: Policy) -> RecordedLife:
            life = await super().__call__(policy)
            if self.attempts == 2:
                await may_open.wait()
            return life

    opener = Slow()
    async with kept(opener, 2) as spares:
        while opener.attempts < 2:
            await asyncio.sleep(0.1)
        assert len(spares) == 1
        await spares.renew()
        assert len(spares) == 0
        may_open.set()
        await spares.full()
        assert [bool(cell.kills) for cell in opener.cells] == [True, True, False, False]


async def test_a_machine_that_refuses_is_asked_again_and_less_and_less_often() -> None:
    opener = Opener()
    opener.refuses = True
    async with kept(opener, 1) as spares:
        await asyncio.sleep(FIRST_PAUSE * 15.5)  # after 0, 1, 3, 7 and 15 pauses
        assert opener.attempts == 5
        assert str(spares.failure) == "no room"
        assert await spares.claim(Policy(), {}) is None
        opener.refuses = False
        await spares.full()
        assert spares.failure is None


async def test_closing_ends_all_that_nobody_has_claimed() -> None:
    opener = Opener()
    async with kept(opener, 3) as spares:
        await spares.full()
        life = await spares.claim(Policy(), {})
        await spares.full()
    assert life is not None
    assert life.end_reason is None
    await life.close()
    assert all(cell.kills for cell in opener.cells)


@pytest.mark.parametrize(
    ("wanted", "same"),
    [
        (Policy(limits=Limits(run_seconds=1, output=1024, lifetime_seconds=60, idle_seconds=5, run_cpu_seconds=1)), True),
        (Policy(limits=Limits(memory=512 << 20)), False),
        (Policy(limits=Limits(cpus=2)), False),
        (Policy(limits=Limits(cpu_seconds=10)), False),
        (Policy(image="python"), False),
        (Policy(strict=True), False),
    ],
)  # fmt: skip
def test_a_spare_fits_what_differs_only_in_what_the_host_keeps(wanted: Policy, same: bool) -> None:
    assert fits(Policy(), wanted) is same


RULES = Policy(network=[{"host": "api.example.com"}])  # type: ignore[arg-type]


@pytest.mark.parametrize("of_the_template", [Policy(), RULES])
async def test_a_spare_waits_without_a_network_and_any_claim_brings_its_own(of_the_template: Policy) -> None:
    opened: list[Policy] = []
    opener = Opener()

    async def watched(policy: Policy) -> RecordedLife:
        opened.append(policy)
        return await opener(policy)

    spares = Spares(Template("t", of_the_template, 2), watched)
    try:
        await spares.full()
        assert [policy.network for policy in opened] == ["none", "none"]
        for wanted in (RULES, Policy()):
            assert spares.fits(wanted)
            life = await spares.claim(wanted, {})
            assert life is not None
            assert life.policy == wanted
            await life.close()
    finally:
        await spares.close()


@pytest.mark.parametrize(
    "bad", [{"name": ""}, {"name": "x" * 65}, {"spares": -1}, {"spares": 1001}, {"spare_seconds": 0}]
)
def test_a_bad_template_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        Template(**{"name": "t", "policy": Policy(), **bad})


# --- warming ----------------------------------------------------------------------------------------------------------


async def test_a_spare_is_warmed_before_it_is_anybodys_and_frozen() -> None:
    asked: list[tuple[str, object, object]] = []

    async def script(one: Asked) -> None:
        asked.append((one.op, one.params.get("code"), one.params.get("silent")))
        await honest(one)

    opener = Opener(script)
    async with kept(opener, 1, preload=("json", "os.path")) as spares:
        await spares.full()
        assert asked == [("execute", preloading(("json", "os.path")), True), ("configure", None, None)]
        assert opener.cells[0].frozen


def test_what_a_spare_runs_imports_what_it_preloads_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(
        "builtins.__import__", lambda name, *_: (imported.append(name), importlib.import_module(name))[1]
    )
    names: dict[str, object] = {}
    *statements, last = ast.parse(preloading(("json", "os.path"))).body
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)
    assert imported[:2] == ["json", "os.path"]
    assert names.keys() == {"__builtins__"}
    assert ast.literal_eval(last.value) == ""  # type: ignore[attr-defined]


async def test_one_that_warms_slowly_is_not_frozen_under_way() -> None:
    async def slow(asked: Asked) -> None:
        await asyncio.sleep(2 * FREEZE_SECONDS)
        assert not opener.cells[0].frozen
        await honest(asked)

    opener = Opener(slow)
    async with kept(opener, 1) as spares:
        begun = now()
        await spares.full()
        assert now() - begun > 2 * FREEZE_SECONDS
        assert (opener.attempts, opener.cells[0].frozen) == (1, True)


async def test_one_that_cannot_preload_is_no_spare_and_the_reason_is_told() -> None:
    async def script(asked: Asked) -> None:
        error = {"name": "ModuleNotFoundError", "value": "No module named 'x'", "traceback": ""}
        await asked.finish(**(DONE | {"status": "error", "error": error} if asked.op == "execute" else {}))

    opener = Opener(script)
    async with kept(opener, 1, preload=("x",)) as spares:
        await asyncio.sleep(FIRST_PAUSE / 2)
        assert isinstance(spares.failure, PolicyError)
        assert "No module named 'x'" in str(spares.failure)
        assert (len(spares), opener.cells[0].kills != []) == (0, True)


async def test_one_that_does_not_get_warm_is_ended_and_tried_again() -> None:
    async def silent(asked: Asked) -> None:
        await asyncio.sleep(1000)

    opener = Opener(silent)
    async with kept(opener, 1) as spares:
        await asyncio.sleep(WARM_SECONDS + FIRST_PAUSE / 2)
        assert isinstance(spares.failure, BoundaryUnusable)
        assert opener.cells[0].kills
        await asyncio.sleep(FIRST_PAUSE)
        assert len(opener.cells) == 2


async def test_a_mistake_in_refilling_is_heard_of_at_once() -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context))

    async def mistaken(policy: Policy) -> RecordedLife:
        raise NameError("no such name")

    spares = Spares(Template("t", Policy()), mistaken)
    await asyncio.sleep(0.1)
    assert [str(context["exception"]) for context in heard] == ["no such name"]
    with pytest.raises(NameError):
        await spares.close()


@pytest.mark.parametrize("bad", ["", "a b", "a;b", "a..b", "1x", "os.", "x" + chr(10)])
def test_what_is_preloaded_is_a_module(bad: str) -> None:
    with pytest.raises(PolicyError, match="not a Python module"):
        Template("t", Policy(), preload=(bad,))
