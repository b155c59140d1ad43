"""What became of the files that a policy's ``outputs`` name: a noun."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LeftOut", "SavedOutputs"]


@dataclass(frozen=True)
class LeftOut:
    """``path`` is inside, as the sandbox says it; undecodable bytes are lone surrogates. ``reason`` is a phrase whose subject it is."""

    path: str
    reason: str


@dataclass(frozen=True)
class SavedOutputs:
    """``keys`` are objects now, ``size`` bytes together. Of what was ``left_out`` there are the first, and ``left_out_count`` is how many
    there were. ``problem`` says why it was not done to its end, or ``None``."""

    keys: tuple[str, ...] = ()
    size: int = 0
    left_out: tuple[LeftOut, ...] = ()
    left_out_count: int = 0
    problem: str | None = None
