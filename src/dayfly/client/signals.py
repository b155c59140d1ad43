"""Signals as callers name them, and as Linux numbers them inside, whatever system the caller is on."""

from __future__ import annotations

import signal

from dayfly.errors import InputError

__all__ = ["HIGHEST", "SIGKILL", "Signal", "signal_number"]

Signal = int | str
"""Linux's number, a name with or without ``SIG``, or a member of ``signal.Signals``."""

HIGHEST = 64
SIGKILL = 9

_NAMES = (  # from 1 on
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU "
    "XFSZ VTALRM PROF WINCH IO PWR SYS"
)
_NUMBERS = {name: number for number, name in enumerate(_NAMES.split(), 1)}


def signal_number(value: Signal) -> int:
    """Linux's number of a signal. Raises ``InputError``."""
    name = (
        value.name if isinstance(value, signal.Signals) else value
    )  # its number may be another on the caller's system
    if isinstance(name, str) and (number := _NUMBERS.get(name.strip().upper().removeprefix("SIG"))):
        return number
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= HIGHEST:
        raise InputError(
            f"not a signal: {value!r:.60}",
            remedy=f"a name such as 'TERM' or 'SIGTERM', or a number from 1 to {HIGHEST}",
        )
    return int(value)
