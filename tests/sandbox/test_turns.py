"""Bulk from many streams: one at a time in each turn of the loop, and all of them get their share."""

from __future__ import annotations

import asyncio
from collections import Counter

from dayfly.sandbox.turns import LITTLE, MUCH, Turns, turns


async def test_whoever_wants_little_waits_for_one_of_many() -> None:
    shared, begun = Turns(), Counter[int]()

    async def flood(number: int) -> None:
        while True:
            await shared.next()
            begun[number] += 1

    floods = [asyncio.ensure_future(flood(number)) for number in range(8)]
    for _ in range(200):
        before = begun.total()
        await asyncio.sleep(0)  # a turn of the loop
        assert begun.total() - before <= 1
    assert min(begun.values()) >= max(begun.values()) - 2 > 0, "in the order of their calls"
    for one in floods:
        one.cancel()
    await asyncio.gather(*floods, return_exceptions=True)


async def test_pieces_are_small_only_where_others_wait() -> None:
    shared = Turns()
    assert shared.piece == MUCH
    await shared.next()
    assert shared.piece == MUCH, "nobody else is there"
    waiting = [asyncio.ensure_future(shared.next()) for _ in range(3)]
    await asyncio.sleep(0)
    assert shared.piece == LITTLE
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert shared.piece == MUCH


async def test_one_who_gave_up_keeps_nobody_from_it() -> None:
    shared = Turns()
    waiting = [asyncio.ensure_future(shared.next()) for _ in range(3)]
    await asyncio.sleep(0)
    given_up = waiting.pop()
    given_up.cancel()
    async with asyncio.timeout(5):
        await shared.next()
    assert given_up.cancelled()
    await asyncio.gather(*waiting)


async def test_a_loop_has_its_own() -> None:
    mine = turns()
    assert turns() is mine

    async def other() -> Turns:
        return turns()

    assert await asyncio.to_thread(lambda: asyncio.run(other())) is not mine
