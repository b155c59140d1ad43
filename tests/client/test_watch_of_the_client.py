"""A watch tells what callers did, not how dayfly did it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dayfly import AsyncWatch, Change
from dayfly.client import watch

SCRATCH = "/home/.dayfly-0123456789abcdef"
OTHER = "/home/.dayfly-fedcba9876543210"


async def told(*news: tuple[str, str]) -> list[Change]:
    async def source() -> AsyncIterator[tuple[str, str]]:
        yield "ready", "/home"
        for one in news:
            yield one

    following = AsyncWatch(None, source())
    await following.ready()
    return [change async for change in following]


WRITE = [("created", SCRATCH), ("modified", SCRATCH), ("renamed", "/home/f")]


async def test_a_write_is_a_new_file_and_the_next_one_changes_it() -> None:
    assert await told(*WRITE) == [("created", "/home/f")]
    assert await told(*WRITE, *WRITE) == [("created", "/home/f"), ("modified", "/home/f")]
    assert await told(*WRITE, ("removed", "/home/f"), *WRITE) == [
        ("created", "/home/f"),
        ("removed", "/home/f"),
        ("created", "/home/f"),
    ]


async def test_a_write_of_a_new_name_only_is_a_new_file() -> None:
    assert await told(("created", SCRATCH), ("created", "/home/f"), ("removed", SCRATCH)) == [("created", "/home/f")]


async def test_a_write_that_is_given_up_is_nothing() -> None:
    gone = [("created", SCRATCH), ("modified", SCRATCH), ("removed", SCRATCH)]
    assert await told(*gone, ("renamed", "/home/g")) == [("renamed", "/home/g")]


async def test_writes_beside_each_other_and_renames_elsewhere_are_told_apart() -> None:
    news = [
        ("created", SCRATCH),
        ("created", OTHER),
        ("renamed", "/home/d/x"),
        ("renamed", "/home/f"),
        ("renamed", "/home/g"),
    ]
    assert await told(*news) == [("renamed", "/home/d/x"), ("created", "/home/f"), ("created", "/home/g")]


async def test_names_that_only_look_alike_are_told() -> None:
    assert await told(("created", "/home/.dayfly-notes")) == [("created", "/home/.dayfly-notes")]


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MOST_NAMES", 3)
    news = [("created", f"/home/.dayfly-{number:016x}") for number in range(10)]
    news += [("created", f"/home/{number}") for number in range(10)]
    assert len(await told(*news)) == 10
