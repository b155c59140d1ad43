"""Attempts to take more than was given, each in a sandbox of its own. Judged by what the host measures, but for how many
threads there were: that is what the flood says of itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from dayfly.client.sandbox import AsyncSandbox
from dayfly.errors import DayflyError
from dayfly.limits import MIB
from dayfly.prove.bundle import bundle
from dayfly.prove.guests import counted
from dayfly.prove.probe import Probe
from dayfly.prove.program import PROGRAM
from dayfly.prove.trials import Outcome
from dayfly.prove.verdict import Claim, Seen, Verdict, judge
from dayfly.spec import EndReason, ProcessResult, Usage
from dayfly.spec import Outcome as Ended

__all__ = ["ceilings", "flood"]

GRACE_SECONDS = 6.0
"""Beyond its timeout, until a command that does not end is ended: 1 s, and 5 s to confirm it."""

ANSWER_SECONDS = 20.0
"""For a word of a sandbox that was flooded, on a machine that is busy with it."""

MARGIN = 1.1
"""Over a cap that is sampled, or counted in a kernel's own pages."""

ROOM = 64 * MIB
"""Of memory beyond the cap that a sandbox's own kernel may take meanwhile."""

ROUNDING = 0.1
"""Cores, by which a share that is measured over a few seconds may be off."""

TRIES = 3
"""Of a flood that came near no cap: on a busy machine others take what it would. Each is judged whole."""

TIMES = 2
"""What is given: a flood goes no further where no cap stops it. Twice, and ``BEYOND`` bytes or ``MORE`` processes, so that it is seen."""

BEYOND = 4 * ROOM
MORE = 64

EXPECTED_ENDS = {
    EndReason.MEMORY_LIMIT,
    EndReason.PROCESS_LIMIT,
    EndReason.DISK_LIMIT,
    EndReason.CPU_LIMIT,
    EndReason.OUTPUT_LIMIT,
}


@dataclass(frozen=True)
class Measured:
    """What the host saw of one flood. ``answers``: the sandbox, afterwards; ``None``: it has ended. ``processes``: the most that there were at once."""

    seconds: float
    timeout: float
    done: ProcessResult | None
    usage: Usage
    ended: EndReason | None
    answers: bool | None
    limits: dict[str, float]
    processes: int | None = None


async def flood(opened: Callable[[], AsyncSandbox], probe: Probe) -> Outcome:
    """Try one. ``probe.attempt`` is of ``inside``; ``probe.measure`` says what must hold."""
    for _ in range(TRIES):
        try:
            async with opened() as sandbox:
                outcome = _judged(probe, await _flooded(sandbox, probe))
        except DayflyError as error:
            return Outcome(probe, judge(probe, Claim(failed=f"{type(error).__name__}: {error.message}"), Seen()))
        if outcome.judgement.verdict is not Verdict.INCONCLUSIVE:
            break
    return outcome


def _judged(probe: Probe, measured: Measured) -> Outcome:
    found = MEASURES[probe.measure](measured)
    seen = Seen(contacts=(*([found.told] if found.beyond else []), *_after(measured)))
    return Outcome(probe, judge(probe, Claim(int(found.tried), told=_and_end(found.told, measured)), seen))


def _and_end(told: str, measured: Measured) -> str:
    return f"{told}, and the sandbox ended with {measured.ended.value}" if measured.ended is not None else told


async def _flooded(sandbox: AsyncSandbox, probe: Probe) -> Measured:
    await sandbox.files.write(PROGRAM, bundle())
    limits = {one.name: one.value for one in sandbox.limits}
    begun, done = time.monotonic(), None
    async with counted(sandbox.id) as guests:
        with suppress(DayflyError):  # where it has ended: why is asked below
            done = await sandbox.commands.run(
                ["python3", "-I", PROGRAM, "flood", probe.attempt, json.dumps(ceilings(limits))], timeout=probe.seconds
            )
    seconds = time.monotonic() - begun
    answers = await _answers(sandbox) if sandbox.end_reason is None else None
    return Measured(seconds, probe.seconds, done, sandbox.usage, sandbox.end_reason, answers, limits, guests.most)


def ceilings(limits: Mapping[str, float]) -> dict[str, int]:
    """Where floods stop by themselves, so that a machine is not harmed where a cap is missing."""
    more = {"memory": BEYOND, "disk": BEYOND, "output": 0, "processes": MORE}
    return {name: int(limits[name]) * TIMES + room for name, room in more.items()}


async def _answers(sandbox: AsyncSandbox) -> bool | None:
    """``None`` where it ends meanwhile as it may: who waits for a command then has a result that says so, or an error."""
    done = None
    with suppress(DayflyError):
        done = await sandbox.commands.run(["/bin/sh", "-c", "echo here"], timeout=ANSWER_SECONDS)
    if sandbox.end_reason in EXPECTED_ENDS:
        return None
    return done is not None and done.stdout == b"here\n"


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


@dataclass(frozen=True)
class Found:
    """``tried``: it came to where a cap was needed; ``beyond``: it came further. ``told``: the figures."""

    tried: bool
    beyond: bool
    told: str


def _of(
    used: float | None, cap: float, *, enough: float, ended: bool = False, room: float = 0.0, unit: str = "MiB"
) -> Found:
    """Of what is measured in bytes or pieces. ``enough``: the share of the cap from which on something was tried."""
    if used is None:
        return Found(False, False, "it is not measured here")
    scale = MIB if unit == "MiB" else 1
    told = f"{used / scale:,.0f} of {cap / scale:,.0f} {unit}"
    return Found(used >= cap * enough or ended, used > cap * MARGIN + room, told)


def _memory(measured: Measured) -> Found:
    ended = measured.ended is EndReason.MEMORY_LIMIT
    return _of(measured.usage.memory_peak, measured.limits["memory"], enough=0.5, ended=ended, room=ROOM)


def _greedy(measured: Measured) -> Found:
    """One process alone gets an error and no more; its own cap is below the sandbox's."""
    return _of(measured.usage.memory_peak, measured.limits["memory"], enough=0.1, room=ROOM)


def _disk(measured: Measured) -> Found:
    ended = measured.ended is EndReason.DISK_LIMIT
    return _of(measured.usage.disk, measured.limits["disk"], enough=0.5, ended=ended, room=ROOM)


def _small(measured: Measured) -> Found:
    """What costs the sandbox's memory or disk in small pieces: both are capped, and a smaller cap of its own may have come first. Tried: it
    went on to its end, to its deadline, or to a limit."""
    memory, disk, done = _memory(measured), _disk(measured), measured.done
    went = done is not None and (done.outcome is Ended.TIMEOUT or done.exit_code == 0)
    return Found(
        went or measured.ended in EXPECTED_ENDS,
        memory.beyond or disk.beyond,
        f"{memory.told} of memory, {disk.told} of disk",
    )


def _cpu(measured: Measured) -> Found:
    share, cap = (measured.usage.cpu_seconds or 0.0) / measured.seconds, measured.limits["cpus"]
    return Found(share > cap / 2, share > cap * MARGIN + ROUNDING, f"{share:.2f} of {cap:g} cores")


def _output(measured: Measured) -> Found:
    got = len(measured.done.stdout) + len(measured.done.stderr) if measured.done is not None else 0
    ended = measured.ended is EndReason.OUTPUT_LIMIT
    return replace(_of(got, measured.limits["output"], enough=0.5, ended=ended), beyond=got > measured.limits["output"])


def _threads(measured: Measured) -> Found:
    """The program says how many it came to, at the end: its kernel has them to itself."""
    return _alive(measured, _said(measured))


def _count(measured: Measured) -> Found:
    """Processes: what the program says, and what this machine has seen of them, whichever is more. It sees what the agent has, too."""
    seen = (measured.processes or 0) / MARGIN
    return replace(_alive(measured, max(_said(measured), int(seen))), tried=_alive(measured, int(seen)).tried)


def _said(measured: Measured) -> int:
    words = (measured.done.stdout if measured.done is not None else b"").split()
    return int(words[-1]) if words and words[-1].isdigit() and len(words[-1]) < 10 else 0


def _alive(measured: Measured, made: int) -> Found:
    cap = measured.limits["processes"]
    found = _of(made, cap, enough=0.1, ended=measured.ended is EndReason.PROCESS_LIMIT, unit="alive")
    return replace(found, beyond=made > cap)


def _time(measured: Measured) -> Found:
    """What does not end by itself: that it was ended is what ``_after`` looks at."""
    told = f"ended after {measured.seconds:.1f} s, with a timeout of {measured.timeout:g} s"
    return Found(measured.seconds >= measured.timeout * 0.9, False, told)


MEASURES: dict[str, Callable[[Measured], Found]] = {
    "memory": _memory,
    "greedy": _greedy,
    "disk": _disk,
    "small": _small,
    "cpu": _cpu,
    "output": _output,
    "count": _count,
    "threads": _threads,
    "time": _time,
}
