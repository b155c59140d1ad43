"""What user code does on a worker's thread: raise anything, and outlive whoever waited."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from dayfly import AsyncSandbox, Sandbox
from dayfly.client import files
from dayfly.client.worker import Worker
from tests.client.room import Landlord


async def test_what_is_made_for_nobody_is_undone() -> None:
    may_end, undone = threading.Event(), threading.Event()

    def make() -> str:
        may_end.wait(10)
        return "thing"

    def undo(thing: str) -> None:
        assert thing == "thing"
        undone.set()

    async with Worker("test") as worker:
        making = asyncio.ensure_future(worker.do(make, undo=undo))
        await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        may_end.set()
    assert await asyncio.to_thread(undone.wait, 10)


@pytest.mark.parametrize("raised", [StopIteration, asyncio.CancelledError])
async def test_what_a_future_cannot_carry_is_a_runtime_error(raised: type[BaseException]) -> None:
    def fail() -> None:
        raise raised

    async with Worker("test") as worker:
        with pytest.raises(RuntimeError, match=raised.__name__):
            await worker.do(fail)


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, ValueError])
def test_whatever_a_callback_raises_reaches_its_caller_and_harms_nobody_else(
    landlord: Landlord, raised: type[BaseException]
) -> None:
    def callback(text: str) -> None:
        raise raised(3)

    expected = RuntimeError if raised is asyncio.CancelledError else raised
    with Sandbox(opener=landlord) as one, Sandbox(opener=landlord) as other:
        with pytest.raises(expected):
            one.run_code("say 1", on_stdout=callback, timeout=5)
        assert one.run_code("say 1").ok
        assert other.run_code("say 1").ok


async def test_a_download_that_is_cancelled_while_it_begins_leaves_nothing(
    landlord: Landlord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_end = threading.Event(), threading.Event()
    make = files._part_file

    def slowly(*arguments: object) -> object:
        asked.set()
        may_end.wait(10)
        return make(*arguments)  # type: ignore[arg-type]

    discarded = threading.Event()
    discard = files.PartFile.discard
    monkeypatch.setattr(files.PartFile, "discard", lambda part: (discard(part), discarded.set()))
    monkeypatch.setattr(files, "_part_file", slowly)
    async with AsyncSandbox(opener=landlord) as sandbox:
        download = asyncio.ensure_future(sandbox.files.download("x", tmp_path / "x"))
        await asyncio.to_thread(asked.wait, 10)
        download.cancel()
        with pytest.raises(asyncio.CancelledError):
            await download
        may_end.set()
        assert await asyncio.to_thread(discarded.wait, 10)
    assert list(tmp_path.iterdir()) == []
