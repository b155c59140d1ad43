"""A template's snapshot: made once, given up when it does not work, and nothing of it left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from dayfly.boundaries.snapshot import Snapshot
from dayfly.errors import AdmissionRefused, BoundaryUnusable, DayflyError, OutOfSpace, SandboxEnded, SnapshotMismatch
from dayfly.manager.leased import clear_abandoned
from dayfly.manager.mould import MAX_FAILURES, Mould
from dayfly.sandbox import Suspended


class Warm:
    """As much of a warm life as a mould uses. ``refusal`` is what taking its snapshot raises."""

    def __init__(self, refusal: DayflyError | None) -> None:
        self.refusal = refusal
        self.suspended = False

    async def suspend(self, directory: Path) -> Suspended:
        if self.refusal is not None:
            raise self.refusal
        directory.mkdir()
        (directory / "memory").write_bytes(b"x")
        self.suspended = True
        return Suspended(Snapshot(directory, {}), cast(Any, None), {})


class Workshop:
    """A mould, and what was asked for on its behalf."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.warmed: list[Warm] = []
        self.restored: list[Suspended] = []
        self.refusal: DayflyError | None = None
        self.mismatch: DayflyError | None = None
        self.mould = Mould(directory, cast(Any, self.warm), cast(Any, self.restore))

    async def warm(self) -> Warm:
        self.warmed.append(Warm(self.refusal))
        return self.warmed[-1]

    async def restore(self, suspended: Suspended) -> str:
        if self.mismatch is not None:
            raise self.mismatch
        assert (suspended.snapshot.directory / "memory").exists()
        self.restored.append(suspended)
        return "a restore"

    @property
    def kept(self) -> list[Path]:
        return list(self.directory.glob("*"))


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "snapshots")


async def test_one_is_warmed_and_all_are_restores_of_it(shop: Workshop) -> None:
    assert [await shop.mould.cast() for _ in range(3)] == ["a restore"] * 3
    assert [one.suspended for one in shop.warmed] == [True]
    assert len({id(one) for one in shop.restored}) == 1
    assert [oct(path.stat().st_mode & 0o777) for path in (shop.directory, *shop.kept)] == ["0o700", "0o700"]
    shop.mould.close()
    shop.mould.close()
    assert shop.kept == []


async def test_where_no_snapshot_can_be_made_the_warm_one_is_given_and_after_some_tries_no_more_are_made(
    shop: Workshop,
) -> None:
    shop.refusal = BoundaryUnusable("not here")
    for number in range(MAX_FAILURES + 2):
        assert await shop.mould.cast() is cast(Any, shop.warmed[number])
        assert shop.kept == []
    shop.refusal = None
    await shop.mould.cast()
    assert not shop.warmed[-1].suspended


async def test_a_snapshot_that_does_not_fit_any_more_is_made_again(shop: Workshop) -> None:
    await shop.mould.cast()
    (first,) = shop.kept
    shop.mismatch = SnapshotMismatch(("runsc",))
    assert await shop.mould.cast() is cast(Any, shop.warmed[1])
    assert shop.kept == []
    shop.mismatch = None
    assert await shop.mould.cast() == cast(Any, "a restore")
    assert shop.kept != [first]
    assert len(shop.warmed) == 3


async def test_one_that_ends_while_its_snapshot_is_taken_is_an_error_and_leaves_nothing(shop: Workshop) -> None:
    shop.refusal = SandboxEnded("memory_limit")
    with pytest.raises(SandboxEnded):
        await shop.mould.cast()
    assert shop.kept == []


@pytest.mark.parametrize("full", [AdmissionRefused("full", retry_after=1), OutOfSpace("full")])
async def test_a_full_machine_takes_nothing_from_the_snapshot(shop: Workshop, full: DayflyError) -> None:
    await shop.mould.cast()
    (kept,) = shop.kept
    shop.mismatch = full
    for _ in range(MAX_FAILURES + 1):
        with pytest.raises(type(full)):
            await shop.mould.cast()
    shop.mismatch = None
    assert await shop.mould.cast() == cast(Any, "a restore")
    assert shop.kept == [kept]


async def test_a_disk_that_was_full_for_long_is_no_reason_to_make_none_any_more(shop: Workshop) -> None:
    shop.refusal = OutOfSpace("full")
    for number in range(MAX_FAILURES + 1):
        assert await shop.mould.cast() is cast(Any, shop.warmed[number])
        assert shop.kept == []
    shop.refusal = None
    assert await shop.mould.cast() == cast(Any, "a restore")


async def test_a_place_that_cannot_be_made_costs_the_snapshot_and_not_the_spare(shop: Workshop) -> None:
    shop.directory.write_text("a file where the directory should be")
    assert await shop.mould.cast() is cast(Any, shop.warmed[0])
    assert not shop.warmed[0].suspended


async def test_the_snapshot_is_locked_while_it_is_used(shop: Workshop) -> None:
    await shop.mould.cast()
    await asyncio.to_thread(clear_abandoned, shop.directory)
    assert len(shop.kept) == 1
    await shop.mould.cast()
