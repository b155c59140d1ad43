"""A life that is stopped and gone on with, over an agent that may refuse, lie or hang. The clock is held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dayfly.errors import BusyError, DayflyError, HostError, SandboxEnded
from dayfly.limits import Limits
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.sandbox.rest import FREEZE_SECONDS, IDLE_SECONDS
from dayfly.sandbox.snapshot import QUIET_SECONDS, Suspended
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedBoundary, scripted_spec
from tests.sandbox.living import DONE

RENEWED: dict[str, Any] = {"renewed": ["python: random"], "kept": [], "unanswered": []}


async def honest(asked: Asked) -> None:
    await asked.finish(**(RENEWED if asked.op == "renew" else DONE))


@asynccontextmanager
async def living(boundary: ScriptedBoundary) -> AsyncIterator[Life]:
    policy = Policy()
    life = await Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
    try:
        yield life
    finally:
        await life.close()


async def restored(boundary: ScriptedBoundary, suspended: Suspended, *, keep_seeds: bool = True) -> Life:
    return await Life.restore(boundary, suspended, scripted_spec(Limits()), Policy(), keep_seeds=keep_seeds)


async def test_a_sandbox_goes_on_after_a_snapshot_and_so_does_each_restore(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        await life.execute("1")
        suspended = await life.snapshot(tmp_path / "image")
        assert (await life.execute("2")).outcome == "ok"
        for _ in range(2):
            other = await restored(boundary, suspended)
            assert (await other.execute("3")).outcome == "ok"
            assert other.languages == life.languages
            assert other.renewed is not None
            assert other.renewed.renewed == ("python: random",)
            await other.close()


async def test_a_suspended_sandbox_is_gone_and_another_process_can_go_on_with_it(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        suspended = await life.suspend(tmp_path / "image")
        assert life.end_reason is EndReason.PAUSED
        with pytest.raises(SandboxEnded):
            await life.execute("1")
    with pytest.raises(HostError):
        Suspended.load(tmp_path / "image")
    suspended.save()
    other = await restored(boundary, Suspended.load(tmp_path / "image"))
    assert (await other.execute("2")).outcome == "ok"
    await other.close()
    suspended.discard()
    suspended.discard()
    assert not (tmp_path / "image").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bookmark": {}, "facts": {}}', '{"bookmark": 1, "facts": 2}'])
def test_what_was_not_suspended_is_not_gone_on_with(tmp_path: Path, text: str) -> None:
    (tmp_path / "snapshot.json").write_text('{"version": 1, "identity": {}}')
    (tmp_path / "life.json").write_text(text)
    with pytest.raises(HostError):
        Suspended.load(tmp_path)


async def test_a_snapshot_is_refused_while_a_call_is_under_way(tmp_path: Path) -> None:
    may_answer = asyncio.Event()

    async def script(asked: Asked) -> None:
        await may_answer.wait()
        await asked.finish(**DONE)

    async with living(ScriptedBoundary(script)) as life:
        running = asyncio.ensure_future(life.execute("1"))
        await asyncio.sleep(0.1)
        with pytest.raises(BusyError):
            await life.snapshot(tmp_path / "image")
        may_answer.set()
        assert (await running).outcome == "ok"
        await life.snapshot(tmp_path / "image")


async def test_a_question_whether_it_may_be_frozen_is_no_such_call(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        boundary.cell.agent.busy = None
        await life.execute("1")
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert life._question is not None
        await life.snapshot(tmp_path / "image")
        assert (await life.execute("2")).outcome == "ok"


async def test_calls_that_come_meanwhile_wait(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await may_end.wait()

    async with living(boundary) as life:
        boundary.cell.before_snapshot = slow
        taking = asyncio.ensure_future(life.snapshot(tmp_path / "image"))
        await begun.wait()
        running = asyncio.ensure_future(life.execute("1"))
        with pytest.raises(BusyError):
            await life.snapshot(tmp_path / "other")
        await asyncio.sleep(60)  # nobody takes it for a silent agent
        assert not running.done()
        may_end.set()
        await taking
        assert (await running).outcome == "ok"


async def test_a_snapshot_that_fails_leaves_the_sandbox_as_it_was(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)

    async def fail() -> None:
        raise HostError("no room")

    async with living(boundary) as life:
        boundary.cell.before_snapshot = fail
        for take in (life.snapshot, life.suspend):
            with pytest.raises(HostError, match="no room"):
                await take(tmp_path / "image")
            assert (await life.execute("1")).outcome == "ok"


@pytest.mark.parametrize("how", ["snapshot", "suspend"])
async def test_a_cancelled_snapshot_is_discarded_and_the_sandbox_goes_on(tmp_path: Path, how: str) -> None:
    boundary = ScriptedBoundary(honest)
    begun = asyncio.Event()

    async def tell() -> None:
        begun.set()
        await asyncio.sleep(1)

    async with living(boundary) as life:
        boundary.cell.before_snapshot = tell
        taking = asyncio.ensure_future(getattr(life, how)(tmp_path / "image"))
        await begun.wait()
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        assert taking.cancelled()
        assert not list(tmp_path.iterdir())
        assert (await life.execute("1")).outcome == "ok"


async def test_a_suspension_that_is_cancelled_too_late_is_kept(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        taking = asyncio.ensure_future(life.suspend(tmp_path / "image"))
        while not boundary.cell.kills:
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    assert taking.cancelled()
    assert (tmp_path / "image" / "life.json").exists()


async def test_an_agent_that_does_not_fall_silent_loses_its_cell_in_time(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        boundary.cell.agent.quiets = False
        begun = asyncio.get_running_loop().time()
        with pytest.raises((HostError, SandboxEnded)):
            await life.snapshot(tmp_path / "image")
        assert asyncio.get_running_loop().time() - begun < QUIET_SECONDS + 1
        assert life.end_reason is EndReason.UNRESPONSIVE
        assert not list(tmp_path.iterdir())


async def hang(asked: Asked) -> None:
    """Never answers."""


async def lie(asked: Asked) -> None:
    await asked.finish(renewed=[1], kept=[], unanswered=[])


async def flood(asked: Asked) -> None:
    await asked.finish(renewed=["x"] * 2000, kept=[], unanswered=[])


async def refuse(asked: Asked) -> None:
    await asked.fail("internal", "no")


async def leave_out(asked: Asked) -> None:
    await asked.finish(renewed=[], kept=[], unanswered=["python"])


@pytest.mark.parametrize("script", [hang, lie, flood, refuse, leave_out], ids=lambda script: script.__name__)
async def test_what_does_not_renew_itself_is_no_spare(tmp_path: Path, script: Any) -> None:
    boundary = ScriptedBoundary(script)
    async with living(boundary) as life:
        suspended = await life.snapshot(tmp_path / "image")
        with pytest.raises(DayflyError):
            await restored(boundary, suspended, keep_seeds=False)
        assert boundary.cell.kills, "it is ended"


async def test_a_fork_lives_with_a_context_that_did_not_answer_and_says_so(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(leave_out)
    async with living(boundary) as life:
        other = await restored(boundary, await life.snapshot(tmp_path / "image"))
        assert other.renewed is not None
        assert other.renewed.unanswered == ("python",)
        await other.close()


async def test_a_restored_spare_is_frozen_and_a_fork_is_not(tmp_path: Path) -> None:
    boundary = ScriptedBoundary(honest)
    async with living(boundary) as life:
        suspended = await life.snapshot(tmp_path / "image")
        for keep_seeds in (False, True):
            other = await restored(boundary, suspended, keep_seeds=keep_seeds)
            await asyncio.sleep(FREEZE_SECONDS + 0.1)
            assert boundary.cell.frozen is not keep_seeds
            await other.close()
