"""Caps, sums and the queue: a held clock, no sandboxes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.errors import AdmissionRefused, InputError
from dayfly.limits import GIB, MIB, Limits
from dayfly.manager.admission import (
    MOST_WAITING_OF_TENANT,
    Admission,
    Allowance,
    Capacity,
    Share,
    Totals,
    available_memory,
)

ROOMY = Capacity(sandboxes=100, memory=100 * GIB, cpus=100, reserve=0)


class Machine:
    """An ``Admission`` whose free memory and allowances the test sets."""

    def __init__(self, capacity: Capacity = ROOMY, **more: object) -> None:
        self.free = 8 * GIB
        self.allowances: dict[str, Allowance] = {}
        self.admission = Admission(
            capacity,
            lambda tenant: self.allowances.get(tenant, Allowance()),
            free_memory=lambda: self.free,
            **more,  # type: ignore[arg-type]
        )

    def take(self, tenant: str = "t", **limits: object) -> asyncio.Task[Share]:
        return asyncio.ensure_future(self.admission.take(tenant, Limits.model_validate(limits)))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_what_is_taken_is_counted_and_given_back_once() -> None:
    machine = Machine()
    share = await machine.take(memory=2 * GIB, cpus=3)
    assert machine.admission.held_by("t") == Totals(1, 2 * GIB, 3)
    machine.admission.release(share)
    machine.admission.release(share)
    assert machine.admission.held_by("t") == Totals()


@pytest.mark.parametrize(
    ("allowance", "named"),
    [
        (Allowance(sandboxes=1), "sandboxes"),
        (Allowance(memory=3 * GIB), "memory"),
        (Allowance(cpus=1.5), "cpus"),
    ],
)
async def test_a_tenants_own_cap_refuses_at_once_and_only_that_tenant(allowance: Allowance, named: str) -> None:
    machine = Machine()
    machine.allowances["t"] = allowance
    share = await machine.take(memory=2 * GIB)
    before = now()
    with pytest.raises(AdmissionRefused, match=named) as refused:
        await machine.take(memory=2 * GIB)
    assert refused.value.retry_after > 0
    assert refused.value.retryable
    assert now() == before
    await machine.take("other", memory=2 * GIB)
    machine.admission.release(share)
    await machine.take(memory=2 * GIB)


@pytest.mark.parametrize(
    "capacity",
    [
        Capacity(sandboxes=1, memory=100 * GIB, cpus=100, reserve=0),
        Capacity(sandboxes=100, memory=3 * GIB, cpus=100, reserve=0),
        Capacity(sandboxes=100, memory=100 * GIB, cpus=1.5, reserve=0),
    ],
)
async def test_a_full_machine_makes_one_wait_until_something_ends(capacity: Capacity) -> None:
    machine = Machine(capacity)
    share = await machine.take(memory=2 * GIB)
    waiting = machine.take("u", memory=2 * GIB)
    await asyncio.sleep(1)
    assert not waiting.done()
    machine.admission.release(share)
    assert (await waiting).tenant == "u"


async def test_a_wait_ends_in_a_clear_refusal_and_leaves_nothing() -> None:
    machine = Machine(Capacity(1, 100 * GIB, 100, 0), patience=3.0)
    share = await machine.take()
    before = now()
    with pytest.raises(AdmissionRefused, match="within 3 s"):
        await machine.take("u")
    assert now() == pytest.approx(before + 3)
    machine.admission.release(share)
    await machine.take("v")  # nobody is before it


async def test_the_queue_is_bounded() -> None:
    machine = Machine(Capacity(1, 100 * GIB, 100, 0), waiting=2)
    share = await machine.take()
    waiting = [machine.take(), machine.take()]
    await asyncio.sleep(0)
    with pytest.raises(AdmissionRefused, match="too many wait"):
        await machine.take()
    machine.admission.release(share)
    machine.admission.release(await waiting[0])
    await waiting[1]


async def test_the_longest_waiting_comes_first_and_one_too_big_blocks_nobody() -> None:
    machine = Machine(Capacity(100, 4 * GIB, 100, 0))
    share, kept = await machine.take(memory=2 * GIB), await machine.take(memory=1536 * MIB)
    big, first, second = (machine.take(memory=size) for size in (4 * GIB, 2 * GIB, 2 * GIB))
    await asyncio.sleep(1)
    machine.admission.release(share)
    machine.admission.release(await first)
    machine.admission.release(await second)
    assert not big.done()
    machine.admission.release(kept)
    await big


async def test_one_tenant_that_waits_for_much_keeps_nobody_from_what_fits() -> None:
    machine = Machine(Capacity(100, 4 * GIB, 100, 0), waiting=2 * MOST_WAITING_OF_TENANT)
    await machine.take(memory=2 * GIB)
    big = [machine.take("greedy", memory=4 * GIB) for _ in range(MOST_WAITING_OF_TENANT)]
    await asyncio.sleep(0)
    with pytest.raises(AdmissionRefused, match="waits for several already"):
        await machine.take("greedy", memory=4 * GIB)
    before = asyncio.get_running_loop().time()
    await machine.take("other", memory=GIB)
    assert asyncio.get_running_loop().time() == before
    assert {type(one) for one in await asyncio.gather(*big, return_exceptions=True)} == {AdmissionRefused}


async def test_what_a_tenant_waits_for_counts_towards_its_cap() -> None:
    machine = Machine(Capacity(1, 100 * GIB, 100, 0))
    machine.allowances["t"] = Allowance(sandboxes=2)
    await machine.take("other")
    waiting = [machine.take("t") for _ in range(2)]
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    with pytest.raises(AdmissionRefused, match="sandboxes: 3 of 2"):
        await machine.take("t")
    assert asyncio.get_running_loop().time() == before
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_what_can_never_fit_is_refused_at_once() -> None:
    machine = Machine(Capacity(100, 4 * GIB, 2, 0))
    for limits in ({"memory": 5 * GIB}, {"cpus": 3}):
        with pytest.raises(InputError, match="no machine of this size"):
            await machine.take(**limits)


async def test_memory_that_becomes_free_lets_the_next_one_in() -> None:
    machine = Machine(Capacity(100, 100 * GIB, 100, reserve=GIB), patience=2.0)
    machine.free = 0
    first = machine.take()
    await asyncio.sleep(1)
    second = machine.take()
    await asyncio.sleep(0.5)
    machine.free = 2 * GIB
    with pytest.raises(AdmissionRefused):
        await first
    assert (await second).tenant == "t", "the first one's end was looked at"


async def test_giving_up_while_waiting_takes_nothing() -> None:
    machine = Machine(Capacity(1, 100 * GIB, 100, 0))
    share = await machine.take()
    waiting = machine.take()
    await asyncio.sleep(1)
    machine.admission.release(share)  # granted, and cancelled before it could take it
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert machine.admission.held_by("t") == Totals()
    await machine.take()


async def test_nothing_is_opened_while_the_machine_is_short_of_memory() -> None:
    machine = Machine(Capacity(100, 100 * GIB, 100, reserve=GIB), patience=1.0)
    machine.free = GIB - 1
    with pytest.raises(AdmissionRefused):
        await machine.take()
    machine.free = GIB
    await machine.take()


async def test_a_spare_that_is_claimed_counts_for_its_tenant_and_no_longer_for_nobody() -> None:
    machine = Machine(Capacity(1, 100 * GIB, 100, 0))
    spare = await machine.take("")
    machine.admission.hand_over(spare, "t")  # although the machine is full: it is there already
    assert (machine.admission.held_by("t").sandboxes, machine.admission.held_by("").sandboxes) == (1, 0)
    machine.allowances["u"] = Allowance(sandboxes=0)
    with pytest.raises(AdmissionRefused):
        machine.admission.hand_over(spare, "u")
    assert machine.admission.held_by("t").sandboxes == 1


@given(st.lists(st.tuples(st.sampled_from("tuv"), st.integers(1, 4), st.booleans()), max_size=40))
async def test_whatever_comes_and_goes_the_sums_never_exceed_the_capacity(moves: list[tuple[str, int, bool]]) -> None:
    capacity = Capacity(sandboxes=4, memory=8 * GIB, cpus=8, reserve=0)
    machine = Machine(capacity, patience=0.5)
    held: list[asyncio.Task[Share]] = []
    for tenant, size, leave in moves:
        held.append(machine.take(tenant, memory=size * GIB, cpus=size))
        await asyncio.sleep(0)
        done = [one for one in held if one.done()]
        if leave and done:
            held.remove(done[0])
            machine.admission.release(done[0].result())
        totals = [machine.admission.held_by(name) for name in "tuv"]
        assert sum(one.sandboxes for one in totals) <= capacity.sandboxes
        assert sum(one.memory for one in totals) <= capacity.memory
    for one in await asyncio.gather(*held, return_exceptions=True):
        if isinstance(one, Share):
            machine.admission.release(one)
    assert [machine.admission.held_by(name) for name in "tuv"] == [Totals()] * 3


def test_the_rule_of_overcommit() -> None:
    made = Capacity.of_machine(24 * GIB, 2, overcommit=10, sandboxes=1000)
    assert (made.memory, made.cpus, made.reserve) == (240 * GIB, 20, GIB)
    assert Capacity.of_machine(2 * GIB, 1, overcommit=1, sandboxes=1).reserve == 2 * GIB // 10


def test_available_memory_is_the_kernels_estimate(tmp_path: Path) -> None:
    assert 0 < available_memory() < 1 << 50
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:   7 kB\n")
    assert available_memory(meminfo) == 7168
    meminfo.write_text("MemTotal: 9 kB\n")
    assert available_memory(meminfo) == 0, "a kernel that does not tell: nothing is opened"
