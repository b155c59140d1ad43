"""What the host measures of floods: each cap's measure finds what went beyond it, and shows nothing where nothing came near."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dayfly.client.sandbox import AsyncSandbox
from dayfly.limits import MIB
from dayfly.policy import Policy
from dayfly.prove.floods import GRACE_SECONDS, MEASURES, Measured, _after, _answers, ceilings
from dayfly.prove.guests import Guests, counted
from dayfly.spec import EndReason, Outcome, ProcessResult, Usage

LIMITS = {"memory": 1024.0 * MIB, "disk": 2048.0 * MIB, "cpus": 1.0, "output": 4.0 * MIB, "processes": 256.0}


def measured(memory: int = 0, disk: int = 0, cpu: float = 0.0, out: bytes = b"", **changes: Any) -> Measured:
    done = ProcessResult(outcome=Outcome.OK, exit_code=0, stdout=out, stderr=b"", duration=1.0)
    found = Measured(
        2.0, 20.0, done, Usage(cpu_seconds=cpu, memory=0, memory_peak=memory * MIB, disk=disk * MIB), None, True, LIMITS
    )
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("memory", measured(memory=1000)),
        ("greedy", measured(memory=400)),
        ("disk", measured(disk=2000)),
        ("small", measured(memory=100)),
        ("cpu", measured(cpu=1.9)),
        ("output", measured(out=b"x" * (4 * MIB))),
        ("count", measured(out=b"253\n", processes=256)),
        ("threads", measured(out=b"253\n")),
        ("time", measured(seconds=20.1)),
    ],
)
def test_a_cap_that_holds_is_shown(name: str, within: Measured) -> None:
    found = MEASURES[name](within)
    assert (found.tried, found.beyond) == (True, False), found.told


@pytest.mark.parametrize(
    ("name", "beyond"),
    [
        ("memory", measured(memory=1300)),
        ("greedy", measured(memory=1300)),
        ("disk", measured(disk=2500)),
        ("small", measured(memory=1300)),
        ("small", measured(disk=2500)),
        ("cpu", measured(cpu=3.9)),
        ("output", measured(out=b"x" * (4 * MIB + 1))),
        ("count", measured(out=b"257\n", processes=256)),
        ("count", measured(out=b"10\n", processes=320)),
        ("threads", measured(out=b"257\n")),
    ],
)
def test_what_went_beyond_its_cap_is_found(name: str, beyond: Measured) -> None:
    assert MEASURES[name](beyond).beyond


@pytest.mark.parametrize("name", ["memory", "greedy", "disk", "cpu", "output", "count", "threads"])
def test_what_came_near_no_cap_has_tried_nothing(name: str) -> None:
    assert not MEASURES[name](measured(out=b"no number")).tried


@pytest.mark.parametrize("name", ["memory", "disk", "output", "count"])
def test_a_sandbox_that_ended_with_the_limits_name_had_come_to_it(name: str) -> None:
    reasons = {
        "memory": EndReason.MEMORY_LIMIT,
        "disk": EndReason.DISK_LIMIT,
        "output": EndReason.OUTPUT_LIMIT,
        "count": EndReason.PROCESS_LIMIT,
    }
    assert MEASURES[name](measured(ended=reasons[name])).tried


@pytest.mark.parametrize(
    "done",
    [None, ProcessResult(outcome=Outcome.ERROR, exit_code=127, stdout=b"", stderr=b"no python3", duration=1.0)],
)
def test_a_flood_that_did_not_run_has_tried_nothing(done: ProcessResult | None) -> None:
    assert not MEASURES["small"](measured(done=done)).tried


def test_processes_that_only_a_program_speaks_of_are_none() -> None:
    assert not MEASURES["count"](measured(out=b"253\n", processes=3)).tried


@pytest.mark.gvisor
def test_the_host_counts_what_nobody_speaks_of() -> None:
    """What a shell has started and waits for; of a sandbox that is not there, nothing."""

    async def look() -> tuple[int, int]:
        async with AsyncSandbox(Policy(image="python")) as sandbox:
            async with counted(sandbox.id) as idle:
                pass
            script = "for i in $(seq 60); do sleep 600 & done; echo there; read line"
            async with counted(sandbox.id) as busy, await sandbox.commands.start(script) as process:
                assert (await anext(process.output())).data == b"there\n"
                busy.look()
        return idle.most or 0, busy.most or 0

    idle, busy = asyncio.run(look())
    assert idle in (1, 2)
    assert 60 <= busy - idle <= 63
    assert Guests("0" * 32).most is None


@pytest.mark.parametrize("small", [1, 1024])
def test_a_flood_stops_by_itself_a_little_beyond_its_cap_where_it_is_seen(small: int) -> None:
    """Without a wall it takes no more of the machine than shows that there is none."""
    limits = {name: value / small for name, value in LIMITS.items()}
    most = ceilings(limits)
    assert all(most[name] <= 2 * limits[name] + 256 * MIB for name in ("memory", "disk", "output"))
    taken = measured(memory=most["memory"] // MIB, disk=most["disk"] // MIB, limits=limits)
    assert MEASURES["memory"](taken).beyond
    assert MEASURES["disk"](taken).beyond
    assert MEASURES["output"](measured(out=bytes(most["output"]), limits=limits)).beyond
    assert MEASURES["count"](measured(out=b"%d" % most["processes"], limits=limits)).beyond


class Flooded:
    """A sandbox that says how a command ended, and has ended then."""

    end_reason: EndReason | None = None

    def __init__(self, outcome: Outcome, ends: EndReason | None, out: bytes = b"") -> None:
        self.commands = self
        self._done, self._ends = (
            ProcessResult(outcome=outcome, exit_code=None, stdout=out, stderr=b"", duration=1.0),
            ends,
        )

    async def run(self, *words: Any, **named: Any) -> ProcessResult:
        self.end_reason = self._ends
        return self._done


@pytest.mark.parametrize(
    ("sandbox", "answers"),
    [
        (Flooded(Outcome.OK, None, b"here\n"), True),
        (Flooded(Outcome.SANDBOX_ENDED, EndReason.DISK_LIMIT), None),  # while it was asked
        (Flooded(Outcome.SANDBOX_ENDED, EndReason.CRASHED), False),
        (Flooded(Outcome.TIMEOUT, None), False),
    ],
)
def test_a_sandbox_that_ends_by_its_limit_while_it_is_asked_has_not_gone_deaf(
    sandbox: Any, answers: bool | None
) -> None:
    assert asyncio.run(_answers(sandbox)) is answers


def test_what_comes_after_a_flood_is_looked_at() -> None:
    assert _after(measured()) == []
    assert _after(measured(ended=EndReason.MEMORY_LIMIT, answers=None)) == []
    assert _after(measured(ended=EndReason.CRASHED))
    assert _after(measured(answers=False))
    assert _after(measured(seconds=20.0 + GRACE_SECONDS + 1))
