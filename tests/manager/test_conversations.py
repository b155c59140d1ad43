"""One conversation, one sandbox: under crowds, failures, ends and cancellations."""

from __future__ import annotations

import asyncio
import gc

import pytest

from dayfly.errors import BoundaryUnusable, InputError
from dayfly.limits import Limits
from dayfly.manager.conversations import Conversations
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.spec import EndReason
from dayfly.testing.scripted import Asked, ScriptedBoundary, ScriptedCell, scripted_spec


async def honest(asked: Asked) -> None:
    await asked.finish()


class Opener:
    """Opens scripted sandboxes, a second each; fails while ``refuses``."""

    def __init__(self) -> None:
        self.cells: list[ScriptedCell] = []
        self.attempts = 0
        self.refuses = False
        self.ill = 0  # so many of the first ones end at once

    async def __call__(self, policy: Policy, env: object) -> Life:
        self.attempts += 1
        await asyncio.sleep(1)
        if self.refuses:
            raise BoundaryUnusable("no room")
        boundary = ScriptedBoundary(honest)
        life = await Life.open(boundary, scripted_spec(policy.limits), policy, env={}, prestart=())
        self.cells.append(boundary.cell)
        if self.attempts <= self.ill:
            boundary.cell.die(EndReason.CRASHED)
            await life.ended()
        return life


class Everyone:
    """``Conversations`` over an opener, giving out lives. ``made`` counts the calls that made one."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._held: Conversations[Life] = Conversations()
        self.made = 0

    def __len__(self) -> int:
        return len(self._held)

    async def get_or_create(self, tenant: str, conversation: str, policy: Policy) -> Life:
        life, made = await self._held.get_or_create(tenant, conversation, policy, lambda: self._opener(policy, {}))
        self.made += made
        return life

    def find(self, tenant: str, conversation: str) -> Life | None:
        return self._held.find(tenant, conversation)


async def test_a_thousand_calls_at_once_for_one_key_make_one_sandbox() -> None:
    opener = Opener()
    all_of_them = Everyone(opener)
    lives = await asyncio.gather(*(all_of_them.get_or_create("t", "c", Policy()) for _ in range(1000)))
    assert (opener.attempts, len({id(life) for life in lives}), len(all_of_them)) == (1, 1, 1)
    assert all_of_them.made == 1
    await lives[0].close()


async def test_other_conversations_and_other_tenants_get_others() -> None:
    opener = Opener()
    all_of_them = Everyone(opener)
    keys = [("t", "c"), ("t", "d"), ("u", "c"), ("tc", "c"), ("t", "cc")]
    lives = await asyncio.gather(*(all_of_them.get_or_create(*key, Policy()) for key in keys))
    assert len({id(life) for life in lives}) == 5
    assert [all_of_them.find(*key) for key in keys] == lives
    assert all_of_them.find("u", "d") is None
    await asyncio.gather(*(life.close() for life in lives))
    assert all_of_them.find("t", "c") is None


async def test_after_its_end_there_is_a_new_one() -> None:
    opener = Opener()
    all_of_them = Everyone(opener)
    first = await all_of_them.get_or_create("t", "c", Policy())
    opener.cells[0].die(EndReason.CRASHED)
    await first.ended()
    second = await all_of_them.get_or_create("t", "c", Policy())
    assert second is not first
    assert second.end_reason is None
    await asyncio.sleep(1)
    assert all_of_them.find("t", "c") is second, "the end of the first took nothing from the second"
    await second.close()


async def test_one_that_ends_while_many_wait_is_handed_to_none_of_them() -> None:
    opener = Opener()
    all_of_them = Everyone(opener)
    opener.ill = 1
    lives = await asyncio.gather(*(all_of_them.get_or_create("t", "c", Policy()) for _ in range(10)))
    assert (opener.attempts, len(set(lives)), lives[0].end_reason) == (2, 1, None)
    await lives[0].close()


async def test_sandboxes_that_all_end_at_once_are_an_error_and_not_a_loop() -> None:
    opener = Opener()
    opener.ill = 1000
    with pytest.raises(BoundaryUnusable, match="in a row"):
        await Everyone(opener).get_or_create("t", "c", Policy())
    assert opener.attempts == 3


async def test_a_failure_is_told_to_all_who_wait_and_the_next_call_tries_again() -> None:
    opener = Opener()
    opener.refuses = True
    all_of_them = Everyone(opener)
    calls = [all_of_them.get_or_create("t", "c", Policy()) for _ in range(5)]
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in found] == [BoundaryUnusable] * 5
    assert (opener.attempts, len(all_of_them)) == (1, 0)
    opener.refuses = False
    await (await all_of_them.get_or_create("t", "c", Policy())).close()


async def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    opener = Opener()
    all_of_them = Everyone(opener)
    calls = [asyncio.ensure_future(all_of_them.get_or_create("t", "c", Policy())) for _ in range(3)]
    await asyncio.sleep(0.5)
    calls[0].cancel()
    first, *lives = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert lives[0] is lives[1]
    assert opener.attempts == 1
    assert isinstance(lives[0], Life)
    await lives[0].close()


async def test_a_failure_that_nobody_waits_for_any_more_is_no_noise() -> None:
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: noise.append(context))
    opener = Opener()
    opener.refuses = True
    all_of_them = Everyone(opener)
    call = asyncio.ensure_future(all_of_them.get_or_create("t", "c", Policy()))
    await asyncio.sleep(0.5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(1)
    assert (opener.attempts, len(all_of_them)) == (1, 0)
    del call
    gc.collect()
    assert noise == []


async def test_another_policy_for_the_same_conversation_is_refused_and_not_ignored() -> None:
    all_of_them = Everyone(Opener())
    life = await all_of_them.get_or_create("t", "c", Policy())
    with pytest.raises(InputError, match="another policy"):
        await all_of_them.get_or_create("t", "c", Policy(limits=Limits(memory="512MiB")))
    assert await all_of_them.get_or_create("t", "c", Policy()) is life
    await life.close()


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\nb", "\udc80", None, 7])
async def test_a_key_is_printable_text(bad: object) -> None:
    all_of_them = Everyone(Opener())
    for key in ((bad, "c"), ("t", bad)):
        with pytest.raises(InputError):
            await all_of_them.get_or_create(*key, Policy())  # type: ignore[arg-type]
