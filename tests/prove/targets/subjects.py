"""Targets for tests: command lines that behave or misbehave. Whatever is attempted is attempted in a box."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from tools.program import program

from dayfly.prove import ALL, Probe, Proof, Row
from dayfly.prove.targets import Means, Target, prove_target
from dayfly.prove.targets.peers import bubblewrap, subprocess

BY_ID = {probe.id: probe for probe in ALL}

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


@cache
def means() -> Means:
    """With the distribution's bubblewrap, had out of its package where it is not installed."""
    return Means(programs={"bwrap": str(program("bwrap", "bubblewrap"))})


def bare() -> Target:
    return subprocess.target(means())


def bwrap() -> Target:
    return bubblewrap.target(means())


def behaving(name: str, code: str, **changes: object) -> Target:
    """One that runs this Python with the program on its standard input."""
    return replace(bare(), name=name, command=[PYTHON, "-c", code], **changes)  # type: ignore[arg-type]


def probes(*ids: str) -> list[Probe]:
    return [BY_ID[one] for one in ids]


def proved(target: Target, chosen: Sequence[Probe], told: list[Row] | None = None) -> Proof:
    return asyncio.run(prove_target(target, chosen, (told if told is not None else []).append))


def rows(proof: Proof) -> dict[str, Row]:
    return {row.id: row for row in proof.rows}
