"""When the agent last gave a sign of life. Pure: times are told."""

from __future__ import annotations

__all__ = ["FRAME_SECONDS", "Hearing"]

FRAME_SECONDS = 30.0
"""A frame takes milliseconds on a stream of this machine, and as many seconds where 256 spinning processes starve an honest agent. What
is not whole after that is no sign of life any more, however its bytes trickle in."""


class Hearing:
    """``last``: seconds of the caller's clock."""

    def __init__(self, now: float) -> None:
        self.last = now
        self._begun = now  # the frame that is not whole yet
        self._rest = 0  # bytes of it

    def heard(self, now: float) -> None:
        """It has said all that it had begun, or is not to speak yet."""
        self.last = self._begun = now

    def read(self, now: float, size: int, rest: int) -> None:
        """``size`` bytes have come, and since then ``rest`` bytes wait for the end of their frame."""
        if not self._rest or rest < self._rest + size:  # nothing was under way, or a frame is whole
            self._begun = now
        self._rest = rest
        if now - self._begun <= FRAME_SECONDS:
            self.last = now
