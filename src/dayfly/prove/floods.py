"""Attempts to take more than was given, each in a sandbox of its own. Judged by what the host measures; what code inside says is not asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import DayflyError
from dayfly.limits import MIB
from dayfly.prove.bundle import bundle
from dayfly.prove.probe import Probe
from dayfly.prove.program import PROGRAM
from dayfly.prove.trials import Outcome
from dayfly.prove.verdict import Claim, Seen, judge
from dayfly.spec import EndReason, ProcessResult, Usage

__all__ = ["flood"]

GRACE_SECONDS = 6.0
"""Beyond its timeout, until a command that does not end is ended: 1 s, and 5 s to confirm it."""

MARGIN = 1.1
"""Over a cap that is sampled, or counted in a kernel's own pages."""

ROOM = 64 * MIB
"""Of memory beyond the cap that a sandbox's own kernel may take meanwhile."""

EXPECTED_ENDS = {
    EndReason.MEMORY_LIMIT,
    EndReason.PROCESS_LIMIT,
    EndReason.DISK_LIMIT,
    EndReason.CPU_LIMIT,
    EndReason.OUTPUT_LIMIT,
}


@dataclass(frozen=True)
class Measured:
    """What the host saw of one flood. ``answers``: the sandbox, afterwards; ``None``: it has ended."""

    seconds: float
    timeout: float
    done: ProcessResult | None
    usage: Usage
    ended: EndReason | None
    answers: bool | None
    limits: dict[str, float]


async def flood(opened: Callable[[], AsyncSandbox], probe: Probe) -> Outcome:
    """Try one. ``probe.attempt`` is of ``inside``; ``probe.measure`` says what must hold."""
    try:
        async with opened() as sandbox:
            measured = await _flooded(sandbox, probe)
    except DayflyError as error:
        return Outcome(probe, judge(probe, Claim(failed=f"{type(error).__name__}: {error.message}"), Seen()))
    tried, beyond = MEASURES[probe.measure](measured)
    return Outcome(probe, judge(probe, Claim(tried), Seen(contacts=tuple([*beyond, *_after(measured)]))))


async def _flooded(sandbox: AsyncSandbox, probe: Probe) -> Measured:
    await sandbox.files.write(PROGRAM, bundle())
    begun, done = time.monotonic(), None
    try:
        done = await sandbox.commands.run(["python3", "-I", PROGRAM, "flood", probe.attempt], timeout=probe.seconds)
    except DayflyError:  # it has ended: why is asked below
        pass
    seconds = time.monotonic() - begun
    answers = await _answers(sandbox) if sandbox.end_reason is None else None
    limits = {one.name: one.value for one in sandbox.limits}
    return Measured(seconds, probe.seconds, done, sandbox.usage(), sandbox.end_reason, answers, limits)


async def _answers(sandbox: AsyncSandbox) -> bool | None:
    try:
        done = await sandbox.commands.run(["/bin/sh", "-c", "echo here"], timeout=20)
    except DayflyError:
        return None if sandbox.end_reason in EXPECTED_ENDS else False
    return done.stdout == b"here\n"


def _after(measured: Measured) -> list[str]:
    """A sandbox that was flooded goes on, or has ended with the limit's name; and whoever waits was answered in time."""
    found = []
    if measured.ended is not None and measured.ended not in EXPECTED_ENDS:
        found.append(f"the sandbox ended with {measured.ended}")
    if measured.answers is False:
        found.append("the sandbox does not answer any more")
    if measured.seconds > measured.timeout + GRACE_SECONDS:
        found.append(f"the answer came after {measured.seconds:.1f} s, and the timeout was {measured.timeout:g} s")
    return found


Found = tuple[int, list[str]]


def _memory(measured: Measured) -> Found:
    used, cap = measured.usage.memory_peak, measured.limits["memory"]
    over = [f"{used / MIB:.0f} MiB of {cap / MIB:.0f} were used"] if used > cap * MARGIN + ROOM else []
    return int(used > cap / 2 or measured.ended is EndReason.MEMORY_LIMIT), over


def _greedy(measured: Measured) -> Found:
    """One process alone gets an error and no more; its own cap is below the sandbox's."""
    used, cap = measured.usage.memory_peak, measured.limits["memory"]
    return int(used > cap / 8), [f"{used / MIB:.0f} MiB were used"] if used > cap * MARGIN + ROOM else []


def _disk(measured: Measured) -> Found:
    used, cap = measured.usage.disk, measured.limits["disk"]
    over = [f"{used / MIB:.0f} MiB of {cap / MIB:.0f} were written"] if used > cap * MARGIN + ROOM else []
    return int(used > cap / 2 or measured.ended is EndReason.DISK_LIMIT), over


def _small(measured: Measured) -> Found:
    """Many empty files, or descriptors: they cost the sandbox's memory, which is capped."""
    return 1, _memory(measured)[1] + _disk(measured)[1]


def _cpu(measured: Measured) -> Found:
    share, cap = measured.usage.cpu_seconds / measured.seconds, measured.limits["cpus"]
    return int(share > cap / 2), [f"{share:.2f} cores of {cap:g} were used"] if share > cap * MARGIN + 0.1 else []


def _output(measured: Measured) -> Found:
    got = len(measured.done.stdout) + len(measured.done.stderr) if measured.done is not None else 0
    cap = measured.limits["output"]
    return int(got >= cap / 2 or measured.ended is EndReason.OUTPUT_LIMIT), [f"{got} bytes came"] if got > cap else []


def _count(measured: Measured) -> Found:
    """Processes or threads: the program says how many it came to, with its last line; the cap is the host's."""
    words = (measured.done.stdout if measured.done is not None else b"").split()
    made = int(words[-1]) if words and words[-1].isdigit() and len(words[-1]) < 10 else 0
    cap = measured.limits["processes"]
    tried = made > cap / 8 or measured.ended is EndReason.PROCESS_LIMIT
    return int(tried), [f"{made} of {cap:g} are alive"] if made > cap else []


def _time(measured: Measured) -> Found:
    """What does not end by itself: that it was ended is what ``_after`` looks at."""
    return int(measured.seconds >= measured.timeout * 0.9), []


MEASURES: dict[str, Callable[[Measured], Found]] = {
    "memory": _memory,
    "greedy": _greedy,
    "disk": _disk,
    "small": _small,
    "cpu": _cpu,
    "output": _output,
    "count": _count,
    "time": _time,
}
