"""Whose sandbox is which, what a tenant may have and use, and what the journal hears of it."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import weakref
from pathlib import Path

import pytest

from dayfly.errors import (
    AdmissionRefused,
    BudgetSpent,
    HostError,
    InputError,
    JournalUnwritable,
    NoSuchSandbox,
    NotProven,
    SandboxEnded,
)
from dayfly.limits import GIB, Limits
from dayfly.manager import Allowance, Capacity, Template
from dayfly.manager.registry import KEPT_SECONDS
from dayfly.manager.tenants import LOOK_SECONDS
from dayfly.policy import Policy, parse_policy
from dayfly.spec import EndReason
from tests.manager.house import House, house

# --- whose is which ---------------------------------------------------------------------------------------------------


async def test_a_sandbox_is_found_by_its_tenant_and_by_nobody_else(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    assert home.tenants.find("anna", mine.id) is mine
    errors = set()
    for tenant, name in (("bert", mine.id), ("bert", "0" * 32), ("", mine.id)):
        with pytest.raises(NoSuchSandbox) as refused:
            home.tenants.find(tenant, name)
        errors.add(str(refused.value).replace(name, ""))
    assert len(errors) == 1, "nothing tells what is another's from what is not there"
    assert [one.id for one in home.tenants.registrations("anna")] == [mine.id]
    assert not home.tenants.registrations("bert")


async def test_an_ended_one_can_be_asked_why_for_an_hour(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    home.boundary.cells[mine.id].die(EndReason.MEMORY_LIMIT, "it grew")
    await mine.life.ended()
    await asyncio.sleep(0.1)
    found = home.tenants.find("anna", mine.id)
    assert (found.state, found.end_reason, found.end_detail) == ("ended", "memory_limit", "it grew")
    home.wall -= 10 * KEPT_SECONDS  # somebody sets the clock: that moves no hour
    assert home.tenants.find("anna", mine.id) is mine
    home.wall += 20 * KEPT_SECONDS
    await asyncio.sleep(KEPT_SECONDS - 1)
    assert home.tenants.find("anna", mine.id) is mine
    await asyncio.sleep(2)
    with pytest.raises(NoSuchSandbox):
        home.tenants.find("anna", mine.id)


async def test_what_is_remembered_of_an_ended_one_is_small_and_says_so(home: House) -> None:
    mine = await home.tenants.create("anna", Policy(), env={"SECRET": "value"})
    life, limits, languages = weakref.ref(mine.life), mine.life.limits, mine.life.languages
    await mine.life.close()
    await asyncio.sleep(0.1)
    gc.collect()
    assert life() is None, "what a live one needs is gone"
    assert (mine.env, mine.life.limits, mine.life.languages) == ({}, limits, languages)
    assert (mine.id, mine.state, mine.end_reason) == (mine.life.id, "ended", EndReason.STOPPED)
    other = await home.tenants.create("anna", parse_policy({}))
    assert other.life.policy is not mine.life.policy
    await other.life.close()
    await asyncio.sleep(0.1)
    assert other.life.policy is mine.life.policy, "equal ones are kept once"
    assert mine.life.explain()["boundary"] == "gvisor"
    await mine.life.close()
    assert (await mine.life.kill(EndReason.CRASHED, "")).reason == (await mine.life.ended()).reason == "stopped"
    with pytest.raises(SandboxEnded, match="stopped"):
        mine.life.execute("x")
    assert not hasattr(mine.life, "__wrapped__")


async def test_a_conversation_is_one_sandbox_for_each_tenant(home: House) -> None:
    calls = [home.tenants.get_or_create(tenant, "c", Policy()) for tenant in ("anna", "bert") for _ in range(500)]
    found = await asyncio.gather(*calls)
    assert len({one.id for one, _ in found}) == 2
    assert sum(made for _, made in found) == 2
    assert {(one.tenant, one.conversation) for one, _ in found} == {("anna", "c"), ("bert", "c")}


async def test_behind_a_closed_gate_nothing_is_made_and_what_lives_goes_on(home: House) -> None:
    tenants = home.tenants
    alive = await tenants.create("a", Policy())
    paused = await tenants.create("a", Policy())
    await tenants.pause(paused)
    home.closed_for = {None}
    for making in (
        lambda: tenants.create("a", Policy()),
        lambda: tenants.get_or_create("a", "c", Policy()),
        lambda: tenants.resume(paused),
        lambda: tenants.fork(alive),
    ):
        with pytest.raises(NotProven):
            await making()
    assert await tenants.create("a", Policy(), template="proven")
    assert alive.state == "ready"
    assert paused.paused, "and what is paused stays so"
    home.closed_for = set()
    await tenants.resume(paused)
    assert paused.state == "ready"


async def test_a_request_made_twice_makes_one_sandbox(home: House) -> None:
    made = await asyncio.gather(
        *(home.tenants.create("anna", Policy(), env={"A": "1"}, idempotency_key="k") for _ in range(50))
    )
    assert len({one.id for one in made}) == 1
    with pytest.raises(InputError, match="another request"):
        await home.tenants.create("anna", Policy(), env={"A": "2"}, idempotency_key="k")
    assert (await home.tenants.create("bert", Policy(), idempotency_key="k")).id != made[0].id


# --- how long ---------------------------------------------------------------------------------------------------------


async def test_a_life_can_be_extended_up_to_what_the_policy_allows(home: House) -> None:
    policy = Policy(limits=Limits(lifetime_seconds=100, idle_seconds=1000), longest_seconds=300)
    mine = await home.tenants.create("anna", policy)
    await asyncio.sleep(90)
    home.tenants.extend(mine, 200)
    with pytest.raises(InputError, match="300 s in all"):
        home.tenants.extend(mine, 211)
    home.tenants.extend(mine, 1)  # never less than it had
    await asyncio.sleep(199)
    assert mine.end_reason is None
    await asyncio.sleep(2)
    assert mine.end_reason == "max_lifetime"
    assert ("sandbox.extended", {"seconds": 200}) in home.told(mine.id)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
async def test_only_a_positive_time_extends(home: House, bad: float) -> None:
    mine = await home.tenants.create("anna", Policy())
    with pytest.raises(InputError):
        home.tenants.extend(mine, bad)


# --- how much ---------------------------------------------------------------------------------------------------------


async def test_a_tenants_cap_holds_and_what_ends_makes_room(home: House) -> None:
    home.allowances["anna"] = Allowance(sandboxes=2)
    first, _ = [await home.tenants.create("anna", Policy()) for _ in range(2)]
    with pytest.raises(AdmissionRefused, match="sandboxes: 3 of 2"):
        await home.tenants.create("anna", Policy())
    await home.tenants.create("bert", Policy())
    await first.life.close()
    await home.tenants.create("anna", Policy())
    refusals = [facts["why"] for kind, facts in home.told("server") if kind == "admission.refused"]
    assert len(refusals) == 1


async def test_a_claimed_spare_counts_for_who_claimed_it(tmp_path: Path) -> None:
    async with house(tmp_path, capacity=Capacity(1, 100 * GIB, 100, 0)) as home:
        spares = home.manager.keep(Template("t", Policy(), 1))
        await spares.full()
        mine = await home.tenants.create("anna", Policy(), template="t")  # no room for a cold one
        assert home.tenants.usage("anna").sandboxes == 1
        home.allowances["anna"] = Allowance(sandboxes=1)
        await mine.life.close()
        await spares.full()
        assert home.tenants.usage("anna").sandboxes == 0


async def test_cpu_seconds_of_a_day_end_in_a_bounded_failure(home: House) -> None:
    home.allowances["anna"] = Allowance(cpu_seconds_per_day=100)
    mine, other = await home.tenants.create("anna", Policy()), await home.tenants.create("bert", Policy())
    for one in (mine, other):
        home.boundary.cells[one.id].cpu_seconds = 99
    await asyncio.sleep(LOOK_SECONDS + 1)
    assert (mine.end_reason, home.tenants.usage("anna").cpu_seconds_today) == (None, 99)
    for one in (mine, other):
        home.boundary.cells[one.id].cpu_seconds = 101
    await asyncio.sleep(LOOK_SECONDS + 1)
    assert (mine.end_reason, other.end_reason) == ("cpu_limit", None)
    with pytest.raises(BudgetSpent, match="100 CPU seconds"):
        await home.tenants.create("anna", Policy())
    home.wall += 86400
    await home.tenants.create("anna", Policy())


# --- quarantine -------------------------------------------------------------------------------------------------------


async def test_quarantine_destroys_keeps_the_reason_and_makes_another(home: House) -> None:
    old, _ = await home.tenants.get_or_create("anna", "c", Policy(), env={"A": "1"})
    new = await home.tenants.quarantine(old, "it asked for the metadata server")
    assert new is not None
    assert new.id != old.id
    assert (old.end_reason, old.end_detail) == ("quarantined", "it asked for the metadata server")
    assert (new.conversation, new.env, new.state) == ("c", {"A": "1"}, "ready")
    assert (await home.tenants.get_or_create("anna", "c", Policy()))[0] is new
    told = dict(home.told(old.id))
    assert told["sandbox.quarantined"] == {"reason": "it asked for the metadata server"}
    assert told["sandbox.ended"]["reason"] == "quarantined"


async def test_quarantine_without_another(home: House) -> None:
    old = await home.tenants.create("anna", Policy())
    assert await home.tenants.quarantine(old, "why", replace=False) is None
    assert not [one for one in home.tenants.registrations("anna") if one.state == "ready"]


# --- the journal ------------------------------------------------------------------------------------------------------


def digest(text: str) -> dict[str, object]:
    return {"size": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}


async def test_a_life_is_told_from_its_beginning_to_its_end(home: House) -> None:
    mine = await home.tenants.create("anna", Policy(), env={"TOKEN": "secret-value"})
    await mine.life.execute("print('ü')")
    assert b"".join([chunk async for chunk in mine.life.read_file("/data/x")]) == b"/data/x"
    await mine.life.close()
    await asyncio.sleep(0.1)
    told = home.told(mine.id)
    assert [kind for kind, _ in told] == [
        "sandbox.opened", "execution.started", "execution.ended", "file.read", "sandbox.ended",
    ]  # fmt: skip
    facts = dict(told)
    assert facts["sandbox.opened"]["environment"] == ["TOKEN"]
    assert facts["execution.ended"]["outcome"] == "ok"
    assert facts["execution.ended"]["stdout"] == digest("print('ü')")
    assert facts["file.read"] == {"path": "/data/x", "whole": True, **digest("/data/x")}
    assert facts["sandbox.ended"]["reason"] == "stopped"
    assert home.contents()["execution.started", "code"] == "print('ü')".encode()
    assert "secret-value" not in repr(told)


async def test_what_a_cancelled_run_printed_is_written_down_too(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    printed = asyncio.Event()

    class Sink:
        async def stdout(self, text: str) -> None:
            printed.set()
            await asyncio.sleep(1000)

        stderr = result = stdout

    run = asyncio.ensure_future(mine.life.execute("told", sink=Sink()))
    await printed.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    failed = dict(home.told(mine.id))["execution.failed"]
    assert (failed["error"], failed["stdout"]) == ("CancelledError", digest("told"))
    assert home.contents()["execution.failed", "stdout"] == b"told"


async def test_nothing_is_written_behind_an_end(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    life = mine.life  # as a request has it that began before
    await life.close()
    await asyncio.sleep(0.1)
    for begin in (life.execute("x"), life.remove("/x"), life.configure({"A": "1"})):
        with pytest.raises(SandboxEnded):
            await begin
    assert home.told(mine.id)[-1][0] == "sandbox.ended"


@pytest.mark.parametrize("env", [{"A" * 65_400: ""}, {f"{number:05d}é": "" for number in range(5000)}])
async def test_names_of_any_number_and_length_have_room_in_an_entry(home: House, env: dict[str, str]) -> None:
    mine = await home.tenants.create("anna", Policy(), env=env)
    assert home.told(mine.id)[0][0] == "sandbox.opened"
    assert "..." in dict(home.told(mine.id))["sandbox.opened"]["environment"]


async def test_what_an_earlier_process_counted_today_counts(home: House) -> None:
    home.allowances["anna"] = Allowance(cpu_seconds_per_day=10)
    await home.tenants.recover([], {"anna": 10.0, "bert": 1.0})
    with pytest.raises(BudgetSpent):
        await home.tenants.create("anna", Policy())
    assert home.tenants.usage("bert").cpu_seconds_today == 1.0
    home.wall += 86400
    await home.tenants.create("anna", Policy())


async def test_what_cannot_be_written_down_is_not_handed_out(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dayfly.manager.tenants.opening", lambda made: {"not": b"JSON"})
    with pytest.raises(InputError):
        await home.tenants.create("anna", Policy())
    assert (home.tenants.registrations("anna"), home.tenants.usage("anna").sandboxes) == ([], 0)


async def test_a_refused_claim_leaves_the_spare_where_it_was(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        spares = home.manager.keep(Template("t", Policy(), 2))
        await spares.full()
        home.allowances["anna"] = Allowance(sandboxes=1)
        calls = [home.tenants.create("anna", Policy(), template="t") for _ in range(5)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(one, AdmissionRefused) for one in found) == 4
        assert sum(cell.kills != [] for cell in home.boundary.cells.values()) == 0


async def test_long_outputs_are_kept_by_their_heads(home: House) -> None:
    mine = await home.tenants.create("anna", Policy())
    await mine.life.execute("x" * 10_000)
    assert home.contents()["execution.ended", "stdout"] == b"x" * 4096
    assert dict(home.told(mine.id))["execution.ended"]["stdout"] == digest("x" * 10_000)


async def test_a_tenants_contents_can_be_erased_and_the_chain_still_verifies(home: House) -> None:
    mine, other = await home.tenants.create("anna", Policy()), await home.tenants.create("bert", Policy())
    for one in (mine, other):
        await one.life.execute(one.tenant)
    assert home.journal.erase("anna").result(5) == 2
    assert home.contents()["execution.started", "code"] == b"bert"


async def journal_noticed(home: House) -> None:
    """Once a try to write has failed."""
    while home.journal.failure is None:
        await asyncio.sleep(0)


async def test_while_the_journal_fails_nothing_begins_and_then_it_goes_on(home: House) -> None:
    mine, dying = [await home.tenants.create("anna", Policy()) for _ in range(2)]
    assert home.told(mine.id)  # its beginning is on the disk
    home.journal._connection.execute("PRAGMA query_only = ON")  # as a full disk does: every commit fails
    await mine.life.execute("the first: nobody knows yet")
    await journal_noticed(home)
    for begin in (mine.life.execute("x"), mine.life.remove("/x"), home.tenants.create("anna", Policy())):
        with pytest.raises(JournalUnwritable, match="nothing happens without it"):
            await begin
    with pytest.raises(JournalUnwritable):
        await anext(mine.life.read_file("/x"))
    await dying.life.close()  # what ends, ends
    home.journal._connection.execute("PRAGMA query_only = OFF")
    told = [kind for kind, _ in home.told(mine.id)]
    assert told == ["sandbox.opened", "execution.started", "execution.ended"], "nothing is lost"
    assert dict(home.told(dying.id))["sandbox.ended"]["reason"] == "stopped"
    assert (await mine.life.execute("well")).stdout == "well"


async def test_what_the_journal_refuses_is_counted(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = await home.tenants.create("anna", Policy())
    assert home.told(mine.id)
    with monkeypatch.context() as patch:
        patch.setattr(home.journal, "append", refusing)
        await mine.life.execute("x")
        with pytest.raises(JournalUnwritable, match="too many wait"):
            await mine.life.execute("x")
    with pytest.raises(JournalUnwritable):  # the try that finds it well again
        await mine.life.execute("x")
    assert home.told("server")[-1] == ("journal.tried", {"after": "too many wait", "lost": 3})
    assert (await mine.life.execute("well")).stdout == "well"


def refusing(*_: object, **__: object) -> None:
    raise HostError("too many wait")


async def test_without_a_journal_everything_works(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        life = await home.manager.open(Policy())
        assert (await life.execute("x")).stdout == "x"
        assert [kind for kind, _ in home.told("server")] == ["server.started", "chain.begun"]
