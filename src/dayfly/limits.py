"""What a sandbox may use. Every default stands here with its unit and its reason; there are no other bare numbers.

Sizes are bytes, times are seconds, CPU is cores. A size may be written as text: ``"512MiB"``, ``"2GB"``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dayfly.errors import InputError

__all__ = ["GIB", "KIB", "MIB", "ByteSize", "Limits", "parse_size"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_UNITS = {"": 1, "b": 1, "k": 1000, "kb": 1000, "kib": KIB, "m": 10**6, "mb": 10**6, "mib": MIB,
          "g": 10**9, "gb": 10**9, "gib": GIB}  # fmt: skip
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*$", re.ASCII)


def parse_size(value: Any) -> int:
    """Bytes from an integer or from text such as ``"512MiB"``. Raises ``InputError``."""
    if isinstance(value, bool):
        raise InputError(f"not a size: {value!r}")
    if isinstance(value, int):
        return value
    match = _SIZE.match(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise InputError(f"not a size: {value!r}", remedy="write bytes, or a number with KiB, MiB, GiB, kB, MB or GB")
    return int(Fraction(match[1]) * unit)


def _size_for_pydantic(value: Any) -> int:
    try:
        return parse_size(value)
    except InputError as error:
        raise ValueError(str(error)) from error


ByteSize = Annotated[int, BeforeValidator(_size_for_pydantic)]


class Limits(BaseModel):
    """Caps of one sandbox. Frozen; unknown keys are errors.

    The ranges refuse what cannot work (a Python needs some tens of MiB) and what is surely a mistake.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    cpus: float = Field(1.0, ge=0.1, le=1024)
    """Cores. One: model-written code is mostly single-threaded, and a loop then takes one core, not the machine."""

    memory: ByteSize = Field(1 * GIB, ge=96 * MIB, le=1024 * GIB)
    """Bytes for everything inside together, tmpfs included. 1 GiB: pandas with a 100 MB file fits, a leak stays small."""

    processes: int = Field(256, ge=16, le=32768)
    """Processes and threads inside together. 256: a thread pool per core and node fit, a fork bomb ends early."""

    disk: ByteSize = Field(2 * GIB, ge=16 * MIB, le=1024 * GIB)
    """Bytes written over the read-only image (home, /tmp, ...). 2 GiB: a data set and its results."""

    shm: ByteSize = Field(64 * MIB, ge=1 * MIB, le=64 * GIB)
    """Bytes of /dev/shm, a tmpfs counted as memory. 64 MiB: what Docker gives, enough for multiprocessing."""

    open_files: int = Field(1024, ge=64, le=65536)
    """Open descriptors per process: the usual soft limit of Linux."""

    output: ByteSize = Field(4 * MIB, ge=1 * KIB, le=4 * GIB)
    """Bytes of stdout, stderr and rich results that one run may deliver. 4 MiB: more than a model can read."""

    run_seconds: float = Field(60.0, ge=0.05, le=86400)
    """Wall time of one run. A minute: longer work says so with ``timeout=``."""

    run_cpu_seconds: float = Field(60.0, ge=0.05, le=86400 * 64)
    """CPU time of one run, over all its processes."""

    lifetime_seconds: float = Field(1800.0, ge=1, le=14 * 86400)
    """Wall time of the sandbox, whatever happens in it. Half an hour: one conversation's work."""

    idle_seconds: float = Field(600.0, ge=1, le=14 * 86400)
    """Wall time without any call before the sandbox ends. Ten minutes: a person reading an answer."""

    cpu_seconds: float = Field(3600.0, ge=1, le=86400 * 64)
    """CPU time of the sandbox over its life. An hour: a loop ends in a bounded failure, not in a bill."""
