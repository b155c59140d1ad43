"""The measurements. Each gives {figure: [samples]}; units are in the figure's name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from bench.contenders import Contender, Dayfly, seconds
from dayfly.sandbox.rest import FREEZE_SECONDS

MIB = 1 << 20
Samples = dict[str, list[float]]


def life(contenders: Iterable[Contender], rounds: int, repeats: int) -> Samples:
    """Cold start to first result, a further trivial execution, close: one round after the other."""
    found: Samples = {}
    for number in range(rounds + 1):
        for contender in contenders:
            cold = seconds(contender.start)
            again = sorted(seconds(contender.again) for _ in range(repeats))
            close = seconds(contender.stop)
            if number == 0:
                continue  # warms the page cache for everyone
            found.setdefault(f"{contender.name}: cold start, ms", []).append(cold * 1e3)
            found.setdefault(f"{contender.name}: trivial execution, ms", []).append(again[len(again) // 2] * 1e3)
            found.setdefault(f"{contender.name}: close, ms", []).append(close * 1e3)
    return found


def transfers(image: str, rounds: int, size: int = 256 * MIB) -> Samples:
    """Upload and download of one file, and text printed by code, with two CPUs."""
    found: Samples = {}
    dayfly = Dayfly("dayfly", image, cpus=2, memory="2GiB", disk="4GiB", output="256MiB")
    dayfly.start()
    try:
        content = os.urandom(MIB) * (size // MIB)
        for _ in range(rounds):
            up = seconds(lambda: dayfly.sandbox.files.write("big", content))
            begun = time.perf_counter()
            got = dayfly.sandbox.files.read("big")
            down = time.perf_counter() - begun
            assert got == content
            text = seconds(lambda: _print(dayfly, 64 * MIB))
            found.setdefault("dayfly: upload of 256 MiB, MB/s", []).append(size / up / 1e6)
            found.setdefault("dayfly: download of 256 MiB, MB/s", []).append(size / down / 1e6)
            found.setdefault("dayfly: 64 MiB of printed text, MB/s", []).append(64 * MIB / text / 1e6)
    finally:
        dayfly.stop()
    return found


def _print(dayfly: Dayfly, size: int) -> None:
    done = dayfly.sandbox.run_code(f"line = 'x' * 1023\nfor _ in range({size // 1024}): print(line)")
    assert len(done.stdout) == size, (len(done.stdout), done.outcome)


def bare_pipe(rounds: int, size: int = 256 * MIB) -> Samples:
    """The floor for transfers: 256 KiB frames through a pipe between two Python processes on the host."""
    found: Samples = {}
    for _ in range(rounds):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            frame = b"x" * (256 * 1024)
            for _ in range(size // len(frame)):
                view = memoryview(frame)
                while view:
                    view = view[os.write(writing, view) :]
            os._exit(0)
        os.close(writing)
        begun, total = time.perf_counter(), 0
        while data := os.read(reading, 256 * 1024):
            total += len(data)
        found.setdefault("bare pipe on the host: 256 MiB, MB/s", []).append(total / (time.perf_counter() - begun) / 1e6)
        os.close(reading)
        os.waitpid(pid, 0)
    return found


def idle_memory(contenders: Iterable[Contender], rounds: int, count: int = 8) -> Samples:
    """MemAvailable that one idle, initialised sandbox costs, averaged over ``count`` at once."""
    found: Samples = {}
    for contender in list(contenders) * rounds:
        clones = [_clone(contender) for _ in range(count)]
        time.sleep(1)  # what the ones before had comes back
        before = available()
        for clone in clones:
            clone.start()
        time.sleep(1)  # let transient memory of the start go
        cost = (before - available()) / count / 1e6
        for clone in clones:
            clone.stop()
        found.setdefault(f"{contender.name}: idle memory, MB", []).append(cost)
    return found


def _clone(contender: Contender) -> Contender:
    import copy

    return copy.copy(contender)


def available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("no MemAvailable in /proc/meminfo")


def idle_cpu(image: str, wait: float = 10.0) -> Samples:
    """CPU of an idle sandbox as a share of a core (all its processes), never used or used once, and of its host process."""
    found: Samples = {}
    for what, used in (("spare", False), ("used sandbox", True)):
        dayfly = Dayfly("dayfly", image)
        dayfly.open()
        try:
            if used:
                dayfly.again()
            time.sleep(FREEZE_SECONDS + 1)
            own, inside = time.process_time(), dayfly.sandbox.usage.cpu_seconds or 0.0
            time.sleep(wait)
            own_share = (time.process_time() - own) / wait * 100
            inside_share = ((dayfly.sandbox.usage.cpu_seconds or 0.0) - inside) / wait * 100
        finally:
            dayfly.stop()
        found[f"dayfly: idle {what}, % of a core"] = [inside_share]
        found[f"dayfly: host process beside an idle {what}, % of a core"] = [own_share]
    return found
