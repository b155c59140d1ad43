"""Idempotency keys: one outcome for one request, however often it is made."""

from __future__ import annotations

import asyncio

import pytest

from dayfly.errors import HostError, InputError
from dayfly.manager import requests
from dayfly.manager.requests import Requests


class Work:
    """Counts how often it is done; fails while ``broken``."""

    def __init__(self) -> None:
        self.done = 0
        self.broken = False

    async def __call__(self) -> int:
        self.done += 1
        number = self.done
        await asyncio.sleep(1)
        if self.broken:
            raise HostError("no room")
        return number


async def test_many_at_once_and_later_ones_get_the_same() -> None:
    work, known = Work(), Requests[int]()
    assert await asyncio.gather(*(known.once("t", "k", "x", work) for _ in range(100))) == [1] * 100
    assert await known.once("t", "k", "x", work) == 1
    assert work.done == 1


async def test_another_key_and_another_tenant_are_other_requests() -> None:
    work, known = Work(), Requests[int]()
    found = await asyncio.gather(*(known.once(*name, "x", work) for name in (("t", "k"), ("t", "l"), ("u", "k"))))
    assert sorted(found) == [1, 2, 3]


async def test_a_key_that_was_used_for_something_else_is_refused() -> None:
    work, known = Work(), Requests[int]()
    await known.once("t", "k", "x", work)
    with pytest.raises(InputError, match="another request"):
        await known.once("t", "k", "y", work)
    assert work.done == 1


async def test_a_failure_is_told_to_all_and_tried_again_by_the_next() -> None:
    work, known = Work(), Requests[int]()
    work.broken = True
    found = await asyncio.gather(*(known.once("t", "k", "x", work) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in found] == [HostError] * 3
    work.broken = False
    assert await known.once("t", "k", "x", work) == 2


async def test_whoever_gives_up_takes_nothing_from_the_others() -> None:
    work, known = Work(), Requests[int]()
    first, second = (asyncio.ensure_future(known.once("t", "k", "x", work)) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == 1
    assert work.done == 1


async def test_old_keys_are_forgotten_and_running_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_KEPT", 2)
    work, known = Work(), Requests[int]()
    running = asyncio.ensure_future(known.once("t", "0", "x", work))
    await asyncio.sleep(0)
    await asyncio.gather(*(known.once("t", str(n), "x", work) for n in range(1, 5)))
    assert await running == 1
    assert await known.once("t", "4", "x", work) == 5
    assert await known.once("t", "5", "x", work) == 6
    assert len(known._known) == 2
    assert await known.once("t", "0", "x", work) == 7, "it was forgotten"


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\nb"])
async def test_a_key_is_printable_text(bad: str) -> None:
    with pytest.raises(InputError, match="idempotency key"):
        await Requests[int]().once("t", bad, "x", Work())
