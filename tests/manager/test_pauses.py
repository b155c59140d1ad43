"""A sandbox that is stopped is there again later, whole, and at no moment neither here nor there."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from dayfly.errors import (
    AdmissionRefused,
    BudgetSpent,
    BusyError,
    HostError,
    InputError,
    OutOfSpace,
    PolicyError,
    SandboxEnded,
)
from dayfly.limits import GIB, LONGEST_PAUSE, MOST_FORKS, Limits
from dayfly.manager import Allowance, Registration, sealing
from dayfly.manager.paused import Remembered
from dayfly.manager.pauses import AT_ONCE
from dayfly.manager.shelf import RESERVE, Shelf
from dayfly.manager.tenants import CEASE_SECONDS, LOOK_SECONDS
from dayfly.policy import DataMount, Policy
from dayfly.spec import EndReason
from tests.manager.house import House, house


async def a_paused_one(home: House, **policy: Any) -> Registration:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy(**policy))
    await mine.life.execute("before")
    await home.tenants.pause(mine)
    return mine


def kept(home: House) -> list[str]:
    return [path.name for path in home.shelf.rglob("*.sealed")]


# --- there and back ---------------------------------------------------------------------------------------------------


async def test_it_goes_on_where_it_was_under_the_same_id(home: House) -> None:
    mine = await a_paused_one(home)
    ident, cell = mine.id, home.boundary.cells[mine.id]
    assert (mine.state, mine.end_reason, cell.kills) == ("paused", None, [(EndReason.PAUSED, "")])
    assert len(kept(home)) == 1
    assert not list(home.scratch.iterdir()), "nothing of it is there in plain"
    await home.tenants.resume(mine)
    assert (mine.state, mine.id) == ("ready", ident)
    assert home.boundary.cells[ident] is not cell
    assert (await mine.life.execute("after")).stdout == "after"
    assert not kept(home)
    assert not list(home.scratch.iterdir())
    assert home.tenants.find("anna", ident) is mine


async def test_nobody_can_use_a_paused_one_and_all_are_told_why(home: House) -> None:
    mine = await a_paused_one(home)
    for _ in range(2):
        with pytest.raises(SandboxEnded, match="is paused") as told:
            await mine.life.execute("x")
        assert (told.value.reason, told.value.remedy) == ("paused", "resume it")
    assert [one.id for one in home.tenants.registrations("anna")] == [mine.id]
    assert not home.tenants.registrations("bert")


async def test_its_conversation_finds_it_and_has_it_go_on(home: House) -> None:
    mine = await a_paused_one(home)
    found = await asyncio.gather(*(home.tenants.get_or_create("anna", "c", Policy()) for _ in range(20)))
    assert {(one.id, made) for one, made in found} == {(mine.id, False)}
    assert mine.state == "ready"
    assert (await home.tenants.get_or_create("bert", "c", Policy()))[0].id != mine.id


async def test_a_pause_is_no_part_of_its_life(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy(limits=Limits(lifetime_seconds=100, cpu_seconds=50)))
    home.boundary.cells[mine.id].cpu_seconds = 20.0
    await asyncio.sleep(40)
    await home.tenants.pause(mine)
    await asyncio.sleep(10_000)
    await home.tenants.resume(mine)
    assert mine.life.seconds_left == pytest.approx(60, abs=1)
    assert mine.cpu_seconds == 20.0
    assert mine.life.spec.limits.cpu_seconds == 30.0, "what is left of it"
    assert mine.policy.limits.cpu_seconds == 50.0
    home.boundary.cells[mine.id].cpu_seconds = 5.0
    await home.tenants.pause(mine)
    await home.tenants.resume(mine)
    assert mine.cpu_seconds == 25.0
    assert mine.life.seconds_lived == pytest.approx(40, abs=1)
    with pytest.raises(InputError, match="the policy allows"):
        home.tenants.extend(mine, mine.policy.longest_seconds)
    await asyncio.sleep(61)
    assert mine.end_reason is EndReason.MAX_LIFETIME


async def test_its_tenant_is_charged_once(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    for used, together in ((10.0, 10.0), (5.0, 15.0)):
        home.boundary.cells[mine.id].cpu_seconds = used
        await home.tenants.pause(mine)
        await home.tenants.resume(mine)
        assert home.tenants.usage("anna").cpu_seconds_today == together
    await home.tenants.end(mine)
    assert home.tenants.usage("anna").cpu_seconds_today == 15.0


async def test_it_takes_room_on_the_disk_and_none_else(home: House) -> None:
    home.allowances["anna"] = Allowance(sandboxes=1)
    mine = await a_paused_one(home)
    used = home.tenants.usage("anna")
    assert (used.sandboxes, used.memory) == (0, 0)
    assert used.paused_bytes == sum(path.stat().st_size for path in home.shelf.rglob("*.sealed")) > 0
    other = await home.tenants.create("anna", Policy())
    with pytest.raises(AdmissionRefused):
        await home.tenants.resume(mine)
    assert (mine.state, len(kept(home))) == ("paused", 1)
    await home.tenants.end(other)
    await home.tenants.resume(mine)
    assert home.tenants.usage("anna").paused_bytes == 0


async def test_pausing_and_resuming_twice_is_once(home: House) -> None:
    mine = await a_paused_one(home)
    await asyncio.gather(*(home.tenants.pause(mine) for _ in range(3)))
    assert len(kept(home)) == 1
    await asyncio.gather(*(home.tenants.resume(mine) for _ in range(3)))
    assert mine.state == "ready"
    assert len(home.told(mine.id)) == 5, "opened, a run's two, paused, resumed"


async def test_the_journal_goes_on_counting(home: House) -> None:
    mine = await a_paused_one(home)
    await home.tenants.resume(mine)
    await mine.life.execute("after")
    await home.tenants.end(mine)
    told = home.told(mine.id)
    kinds = [kind for kind, _ in told]
    assert kinds == [
        "sandbox.opened", "execution.started", "execution.ended", "sandbox.paused", "sandbox.resumed",
        "execution.started", "execution.ended", "sandbox.ended",
    ]  # fmt: skip
    assert [facts["number"] for kind, facts in told if kind == "execution.started"] == [1, 2]
    assert told[4][1] == {"renewed": ["python: random"], "kept": []}


# --- what can go wrong ------------------------------------------------------------------------------------------------


async def test_one_that_is_busy_is_not_stopped(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    run = asyncio.ensure_future(mine.life.execute("sleep"))
    await asyncio.sleep(0.1)
    with pytest.raises(BusyError):
        await home.tenants.pause(mine)
    with pytest.raises(BusyError):
        await home.tenants.fork(mine)
    assert (await run).stdout == "sleep"
    await home.tenants.pause(mine)
    assert mine.state == "paused"


@pytest.mark.parametrize("where", ["seal", "record", "tenant", "cap"])
async def test_what_cannot_be_kept_goes_on(home: House, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())

    def refuse(*_: object) -> None:
        raise HostError("the disk is sick")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "seal":
        monkeypatch.setattr(sealing.os, "fsync", full)
    elif where == "record":
        monkeypatch.setattr(Remembered, "put", refuse)
    elif where == "tenant":
        home.allowances["anna"] = Allowance(paused_bytes=100)
    else:
        monkeypatch.setattr(home.manager.pauses._shelf, "_most", 100)
    with pytest.raises(HostError if where == "record" else OutOfSpace):
        await home.tenants.pause(mine)
    assert mine.state == "ready"
    assert (await mine.life.execute("still here")).stdout == "still here"
    assert not kept(home)
    assert not list(home.scratch.iterdir())


async def test_one_that_ends_while_it_is_being_kept_has_ended(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    put = Remembered.put
    loop = asyncio.get_running_loop()

    def late(records: Remembered, paused: Any) -> None:
        put(records, paused)
        loop.call_soon_threadsafe(home.boundary.cells[mine.id].die, EndReason.MEMORY_LIMIT, "it grew")

    monkeypatch.setattr(Remembered, "put", late)
    with pytest.raises(SandboxEnded, match="memory_limit"):
        await home.tenants.pause(mine)
    await mine.ended()
    assert (mine.state, mine.end_reason) == ("ended", EndReason.MEMORY_LIMIT)
    assert not kept(home)
    assert not home.manager.paused


async def test_a_caller_who_is_gone_leaves_nothing_half_done(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    for change, state in ((home.tenants.pause, "paused"), (home.tenants.resume, "ready")):
        caller = asyncio.ensure_future(change(mine))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert mine.state == state
    assert (await mine.life.execute("x")).stdout == "x"


@pytest.mark.parametrize("state", ["ready", "paused"])
async def test_a_machine_without_memory_for_a_copy_says_so(home: House, state: str) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    if state == "paused":
        await home.tenants.pause(mine)
    home.memory = RESERVE - 1
    with pytest.raises(OutOfSpace, match="memory free"):
        await (home.tenants.pause(mine) if state == "ready" else home.tenants.resume(mine))
    assert mine.state == state
    home.memory = GIB
    await (home.tenants.pause(mine) if state == "ready" else home.tenants.resume(mine))


async def test_only_a_few_copies_are_in_memory_at_a_time(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [await home.tenants.create("anna", Policy()) for _ in range(3 * AT_ONCE)]
    plain, seen = Shelf.plain, []

    def counting(shelf: Shelf, size: int) -> Any:
        made = plain(shelf, size)
        seen.append(len(list(home.scratch.iterdir())))
        return made

    monkeypatch.setattr(Shelf, "plain", counting)
    await asyncio.gather(*(home.tenants.pause(one) for one in many))
    await asyncio.gather(*(home.tenants.resume(one) for one in many))
    assert len(seen) == 6 * AT_ONCE
    assert 1 < max(seen) <= AT_ONCE


async def test_one_whose_agent_is_gone_cannot_go_on_and_says_so(home: House) -> None:
    mine = await a_paused_one(home)
    home.agent.unlink()
    other, made = await home.tenants.get_or_create("anna", "c", Policy())
    assert (made, mine.end_reason) == (True, EndReason.SNAPSHOT_MISMATCH)
    assert mine.end_detail == "the snapshot is of another agent"
    assert other.state == "ready"


async def test_one_whose_data_is_not_there_for_now_stays_paused_and_says_so(home: House, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mine = await a_paused_one(home, mounts=[DataMount(source=data, target="/data")])
    data.rename(tmp_path / "away")
    with pytest.raises(PolicyError, match="mount source cannot be used"):
        await home.tenants.resume(mine)
    (tmp_path / "data").symlink_to("/etc")
    with pytest.raises(PolicyError, match="system path"):
        await home.tenants.resume(mine)
    assert mine.state == "paused"
    data.unlink()
    (tmp_path / "away").rename(data)
    await home.tenants.resume(mine)
    assert (await mine.life.execute("after")).stdout == "after"


async def test_one_that_ends_while_it_is_resumed_is_still_paused(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = await a_paused_one(home)

    async def die(*_: object) -> None:
        raise SandboxEnded("memory_limit")

    with monkeypatch.context() as patch:
        patch.setattr(home.boundary, "restore", die)
        with pytest.raises(SandboxEnded, match="memory_limit"):
            await home.tenants.resume(mine)
    assert (mine.state, len(kept(home))) == ("paused", 1)
    await home.tenants.resume(mine)
    assert mine.state == "ready"


async def test_a_damaged_one_stays_until_somebody_ends_it(home: House) -> None:
    mine = await a_paused_one(home)
    (file,) = home.shelf.rglob("*.sealed")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(HostError, match="damaged"):
        await home.tenants.resume(mine)
    assert mine.state == "paused"
    await home.tenants.end(mine)
    assert (mine.state, mine.end_reason, kept(home)) == ("ended", "stopped", [])


async def test_one_that_cannot_go_on_here_ends_and_its_conversation_gets_another(home: House) -> None:
    mine = await a_paused_one(home)
    home.boundary.conditions["runsc"] = "another"
    other, made = await home.tenants.get_or_create("anna", "c", Policy())
    assert made
    assert other.id != mine.id
    assert (mine.end_reason, mine.end_detail) == (EndReason.SNAPSHOT_MISMATCH, "the snapshot is of another runsc")
    assert not kept(home)
    await home.tenants.pause(other)
    home.boundary.conditions["runsc"] = "a third"
    with pytest.raises(SandboxEnded, match="snapshot_mismatch"):
        await home.tenants.resume(other)
    with pytest.raises(SandboxEnded, match="snapshot_mismatch"):
        await home.tenants.resume(other)


@pytest.mark.parametrize("reason", [EndReason.STOPPED, EndReason.QUARANTINED])
async def test_a_paused_one_can_be_ended_for_good(home: House, reason: EndReason) -> None:
    mine = await a_paused_one(home)
    if reason is EndReason.QUARANTINED:
        await home.tenants.quarantine(mine, "odd", replace=False)
    else:
        await home.tenants.end(mine)
    await home.tenants.end(mine)
    assert (mine.state, mine.end_reason, kept(home)) == ("ended", reason, [])
    with pytest.raises(SandboxEnded):
        await mine.life.execute("x")
    assert (await home.tenants.get_or_create("anna", "c", Policy()))[1], "another one"
    assert home.told(mine.id)[-1][0] == "sandbox.ended"


async def test_it_is_kept_for_so_long_and_no_longer(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    for wrong in (0, -1, LONGEST_PAUSE + 1):
        with pytest.raises(InputError):
            await home.tenants.pause(mine, wrong)
    await home.tenants.pause(mine, 1000)
    assert mine.expires == home.wall + 1000
    home.wall += 999
    await asyncio.sleep(LOOK_SECONDS)
    assert mine.state == "paused"
    home.wall += 1
    await asyncio.sleep(LOOK_SECONDS + 1)
    assert (mine.state, mine.end_reason, kept(home)) == ("ended", EndReason.EVICTED, [])


async def test_who_comes_back_too_late_is_told_so_before_the_next_look(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    await home.tenants.pause(mine, 1000)
    home.wall += 1000
    other, made = await home.tenants.get_or_create("anna", "c", Policy())
    assert (made, mine.end_reason, kept(home)) == (True, EndReason.EVICTED, [])
    await home.manager.pause(other.id, seconds=10)
    home.wall += 10
    with pytest.raises(SandboxEnded, match="evicted"):
        await home.manager.resume(other.id)
    assert not kept(home)


async def test_a_spent_budget_keeps_it_paused(home: House) -> None:
    home.allowances["anna"] = Allowance(cpu_seconds_per_day=10)
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy())
    home.boundary.cells[mine.id].cpu_seconds = 11
    await home.tenants.pause(mine)
    with pytest.raises(BudgetSpent):
        await home.tenants.resume(mine)
    await asyncio.sleep(LOOK_SECONDS + 1)
    assert mine.state == "paused", "it costs nothing now"


# --- the next process -------------------------------------------------------------------------------------------------


async def test_the_next_server_has_them_all_with_their_clocks_and_their_owners(tmp_path: Path) -> None:
    records = Remembered()
    async with house(tmp_path, records=records) as first:
        mine = await a_paused_one(first)
        unended = await first.tenants.create("anna", Policy())
        ended = await a_paused_one(first)
        conditions = first.boundary._saved
        assert ended is mine
    assert len(list((tmp_path / "shelf").iterdir())) == 1
    (tmp_path / "shelf" / "orphan.sealed").touch()
    async with house(tmp_path, records=records) as second:
        second.boundary._saved = conditions
        await second.tenants.recover([(mine.id, "anna"), (unended.id, "anna")])
        (found,) = second.tenants.registrations("anna")
        assert (found.id, found.state, found.created) == (mine.id, "paused", mine.created)
        assert second.told(mine.id)[-1][0] == "sandbox.paused", "it has not ended"
        assert second.told(unended.id)[-1][0] == "sandbox.ended"
        assert len(list(second.shelf.iterdir())) == 1, "nobody has a key for the other"
        again, made = await second.tenants.get_or_create("anna", "c", Policy())
        assert (again, made, again.state) == (found, False, "ready")
        assert (await again.life.execute("after")).stdout == "after"
        await second.tenants.end(again)
        assert not list(records.all())


async def test_conversations_are_paused_when_a_server_stops_and_others_end(tmp_path: Path) -> None:
    records = Remembered()
    async with house(tmp_path, records=records) as home:
        mine = [(await home.tenants.get_or_create("anna", str(n), Policy()))[0] for n in range(6)]
        other = await home.tenants.create("anna", Policy())
        await home.tenants.pause_conversations(10)
        assert {one.state for one in mine} == {"paused"}
        assert other.state == "ready"
        late, _ = await home.tenants.get_or_create("anna", "late", Policy())
        await home.tenants.pause_conversations(0)
    assert (other.end_reason, late.end_reason) == ("stopped", "stopped")
    assert {one.id for one in records.all()} == {one.id for one in mine}


async def test_what_runs_is_stopped_for_that_and_what_does_not_stop_ends(tmp_path: Path) -> None:
    records = Remembered()
    async with house(tmp_path, records=records) as home:
        soon, never = [(await home.tenants.get_or_create("anna", code, Policy()))[0] for code in ("sleep", "for ever")]
        running = [asyncio.ensure_future(one.life.execute(one.conversation or "")) for one in (soon, never)]
        await asyncio.sleep(0)
        await home.tenants.pause_conversations(10)
        assert (soon.state, never.state) == ("paused", "ready")
    assert [one.end_reason for one in (soon, never)] == [None, "stopped"]
    assert [(await one).outcome for one in running] == ["ok", "sandbox_ended"]


async def test_many_that_do_not_stop_keep_no_other_from_being_paused(tmp_path: Path) -> None:
    async with house(tmp_path, records=Remembered()) as home:
        every = [(await home.tenants.get_or_create("anna", str(number), Policy()))[0] for number in range(3 * AT_ONCE)]
        *stubborn, other = every
        running = [asyncio.ensure_future(one.life.execute("for ever")) for one in stubborn]
        await asyncio.sleep(0)
        await home.tenants.pause_conversations(CEASE_SECONDS + 1)
        assert other.state == "paused"
    assert {(await one).outcome for one in running} == {"sandbox_ended"}


async def test_what_does_not_last_goes_with_the_process(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await a_paused_one(home)
    assert not list(home.shelf.iterdir())
    shelf = Shelf(tmp_path / "shelf", lasting=False, scratch=tmp_path / "memory")
    (tmp_path / "shelf" / "abandoned").mkdir()
    shelf.sweep(())
    assert not list(home.shelf.iterdir())


# --- forks ------------------------------------------------------------------------------------------------------------


async def test_a_fork_is_another_sandbox_and_the_first_one_goes_on(home: House) -> None:
    mine, _ = await home.tenants.get_or_create("anna", "c", Policy(), env={"A": "1"})
    made = await home.tenants.fork(mine, 3)
    assert len({mine.id, *(one.id for one in made)}) == 4
    assert {(one.tenant, one.conversation, one.env["A"], one.state) for one in made} == {("anna", None, "1", "ready")}
    for one in (mine, *made):
        assert (await one.life.execute("x")).stdout == "x"
    assert home.tenants.usage("anna").sandboxes == 4
    assert not list(home.scratch.iterdir())
    assert ("sandbox.forked", {"into": [one.id for one in made]}) in home.told(mine.id)
    kind, facts = home.told(made[0].id)[0]
    assert (kind, facts["fork_of"], facts["renewed"]) == ("sandbox.opened", mine.id, ["python: random"])


async def test_forks_are_all_there_or_none(home: House) -> None:
    home.allowances["anna"] = Allowance(sandboxes=3)
    mine = await home.tenants.create("anna", Policy())
    with pytest.raises(AdmissionRefused):
        await home.tenants.fork(mine, 3)
    assert [one.id for one in home.tenants.registrations("anna")] == [mine.id]
    assert home.tenants.usage("anna").sandboxes == 1
    for wrong in (0, -1, MOST_FORKS + 1):
        with pytest.raises(InputError):
            await home.tenants.fork(mine, wrong)
    assert (await mine.life.execute("x")).stdout == "x"


async def test_copies_that_nobody_waits_for_any_more_are_gone(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    caller = asyncio.ensure_future(home.tenants.fork(mine, 2))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert [one.state for one in home.tenants.registrations("anna")] == ["ended", "ended", "ready"]
    assert (await mine.life.execute("x")).stdout == "x"


async def test_a_paused_one_cannot_be_copied(home: House) -> None:
    with pytest.raises(SandboxEnded, match="is paused"):
        await home.tenants.fork(await a_paused_one(home))
