"""Measurements of many sandboxes that wait, and of pauses: what they cost a machine, and how soon they answer."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from bench.measures import Samples, available
from dayfly.boundaries.base import Cell
from dayfly.limits import Limits
from dayfly.manager import Manager, Template, embedded
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.spares import Spares
from dayfly.policy import Policy
from dayfly.sandbox.link import Link
from dayfly.sandbox.rest import FREEZE_SECONDS

PRELOAD = ("pandas", "matplotlib.pyplot")

AT_ONCE = 4
"""Opened at a time: more makes two cores no faster."""

WATCH_SECONDS = 10.0


def crowds(rounds: int, *, plain: int, rich: int) -> Samples:
    """``plain`` sandboxes of the image python, ``rich`` of data with pandas loaded, and ``rounds`` pauses of one."""
    found = asyncio.run(idle("python", plain, ()))
    found |= asyncio.run(idle("data", rich, PRELOAD))
    found |= asyncio.run(refill(rich // 4))
    for image in ("python", "data"):
        found |= asyncio.run(pauses(image, rounds))
    return found


async def idle(image: str, count: int, preload: tuple[str, ...]) -> Samples:
    """All of them used once, and then left alone: their CPU together, their memory, and each one's next answer."""
    manager = embedded()
    try:
        name = f"{count} idle sandboxes, {image}"
        before = available()
        lives = await opened(manager, image, count, preload)
        await asyncio.sleep(FREEZE_SECONDS * 2)
        memory = (before - available()) / count / 1e6
        used, own = sum(map(cpu_seconds, lives)), time.process_time()
        await asyncio.sleep(WATCH_SECONDS)
        share = (sum(map(cpu_seconds, lives)) - used) / WATCH_SECONDS * 100
        own_share = (time.process_time() - own) / WATCH_SECONDS * 100
        answers = [await answer(life) for life in lives]
        return {
            f"dayfly, {name}: all of them, % of a core": [share],
            f"dayfly, {name}: their host process, % of a core": [own_share],
            f"dayfly, {name}: memory of each, MB": [memory],
            f"dayfly, {name}: next answer, ms": answers,
        }
    finally:
        await manager.close()


async def opened(manager: Manager, image: str, count: int, preload: tuple[str, ...]) -> list[RecordedLife]:
    policy = Policy(image=image, limits=Limits(lifetime_seconds=3600, idle_seconds=3600))
    turns = asyncio.Semaphore(AT_ONCE)
    if preload:
        manager.keep(Template("crowd", policy, AT_ONCE, preload=preload))

    async def one() -> RecordedLife:
        async with turns:
            life = await manager.open(policy)
            assert (await life.execute("1+1")).text == "2"
            return life

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def answer(life: RecordedLife) -> float:
    begun = time.perf_counter()
    assert (await life.execute("1+1")).text == "2"
    return (time.perf_counter() - begun) * 1e3


def cpu_seconds(life: RecordedLife) -> float:
    return life.usage().cpu_seconds or 0.0


async def pauses(image: str, rounds: int) -> Samples:
    """Of one sandbox after a first run; ``data`` with pandas loaded. Beside it a plain copy of its file, for the disk's part."""
    manager = embedded()
    found: Samples = {}
    try:
        life = await manager.open(Policy(image=image))
        await life.execute("import pandas, matplotlib.pyplot" if image == "data" else "1+1")
        for _ in range(rounds):
            begun = time.perf_counter()
            paused = await manager.pause(life.id)
            stopped = time.perf_counter()
            copied = copy_seconds(paused.sealed.file)
            again = time.perf_counter()
            life = await manager.resume(life.id)
            await life.execute("1+1")
            resumed = time.perf_counter()
            for what, value in (
                ("pause, ms", (stopped - begun) * 1e3),
                ("resume to first result, ms", (resumed - again) * 1e3),
                ("bytes on disk, MB", paused.sealed.size / 1e6),
                ("a plain copy of them, fsynced, ms", copied * 1e3),
            ):
                found.setdefault(f"dayfly, {image}: {what}", []).append(value)
            begun = time.perf_counter()
            (fork,) = await manager.fork(life.id)
            await fork.execute("1+1")
            found.setdefault(f"dayfly, {image}: fork to first result, ms", []).append(
                (time.perf_counter() - begun) * 1e3
            )
            await fork.close()
        return found
    finally:
        await manager.close()


async def refill(count: int) -> Samples:
    """How fast spares of a preloaded template come, and restores of the same snapshot that do no more than answer."""
    manager = embedded()
    try:
        spares = manager.keep(Template("crowd", Policy(image="data"), count + 1, preload=PRELOAD))
        while not len(spares):
            await asyncio.sleep(0.001)
        begun = time.perf_counter()
        await spares.full()
        ours = count / (time.perf_counter() - begun)
        bare = await bare_restores(manager, spares, count)
        return {"dayfly, data: spares a second": [ours], "bare restores of the same snapshot a second": [bare]}
    finally:
        await manager.close()


async def bare_restores(manager: Manager, spares: Spares, count: int) -> float:
    assert spares._mould is not None
    suspended = spares._mould._suspended
    assert suspended is not None
    cells: list[Cell] = []
    begun = time.perf_counter()
    for _ in range(count):
        spec, lease = await manager._prepared(spares._patient_policy(), "data")
        cells.append(await manager._boundary("gvisor").restore(suspended.snapshot, spec))
        await Link(cells[-1].stream, lambda _: None, suspended.bookmark).resume()
        cells[-1].freeze()  # as spares are
        lease.close()
    taken = time.perf_counter() - begun
    await asyncio.gather(*(cell.kill() for cell in cells))
    return count / taken


def copy_seconds(file: Path) -> float:
    copy = file.with_suffix(".copy")
    begun = time.perf_counter()
    with file.open("rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    taken = time.perf_counter() - begun
    copy.unlink()
    return taken


if __name__ == "__main__":
    plain, rich, rounds = map(int, sys.argv[1:4])
    for name, values in crowds(rounds, plain=plain, rich=rich).items():
        print(f"{name}: {statistics.median(values):.4g} (max {max(values):.4g}, n {len(values)})")
