"""What the proof stands on: versions with their age, and what this machine has on against side channels."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from pathlib import Path

from dayfly.prove.proof import Condition

__all__ = ["OLD_DAYS", "aged", "machine"]

OLD_DAYS = 365
"""From here on an age is worth a look: a year of security fixes is missing."""

_VULNERABILITIES = Path("/sys/devices/system/cpu/vulnerabilities")
_SMT = Path("/sys/devices/system/cpu/smt/active")


def aged(name: str, value: str, made: datetime.date | None, today: datetime.date, remedy: str) -> Condition:
    """Green, or amber where it is old or does not tell its age."""
    if made is None:
        return Condition(name=name, value=f"{value}, of unknown age", state="amber", remedy=remedy)
    days = (today - made).days
    state = "amber" if days > OLD_DAYS else "green"
    return Condition(
        name=name, value=f"{value}, {days} days old", state=state, remedy=remedy if state == "amber" else ""
    )


def machine() -> Sequence[Condition]:
    """The kernel, SMT and the CPU's known weaknesses. dayfly is no defence against CPU side channels: this says what the host has."""
    found = [Condition(name="kernel", value=platform.release()), _smt()]
    open_ = [f"{path.name} ({said})" for path in _vulnerabilities() if (said := _read(path)).startswith("Vulnerable")]
    if open_:
        remedy = "update the kernel and the CPU's microcode, or give tenants machines of their own"
        return [*found, Condition(name="CPU weaknesses", value=", ".join(open_), state="amber", remedy=remedy)]
    known = len(_vulnerabilities())
    said = f"{known} known, none open" if known else "this machine does not say"
    return [*found, Condition(name="CPU weaknesses", value=said, state="green" if known else "amber")]


def _smt() -> Condition:
    said = _read(_SMT)
    if said == "1":
        remedy = "tenants who do not trust each other want it off: echo off > /sys/devices/system/cpu/smt/control"
        return Condition(name="SMT", value="on", state="amber", remedy=remedy)
    return Condition(name="SMT", value="off" if said == "0" else "this machine does not say")


def _vulnerabilities() -> list[Path]:
    try:
        return sorted(_VULNERABILITIES.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
