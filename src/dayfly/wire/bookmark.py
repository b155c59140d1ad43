"""Where the host's side of a silent connection stands: all that it takes to go on with it, later and elsewhere."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError

__all__ = ["Bookmark"]

_FIELDS = ("epoch", "sent", "received", "channel")


class Bookmark:
    """Numbers: of the epoch, of the last frame sent and received, and of the next channel to open.

    Each of several copies of the peer (restores of one snapshot) is met with a connection of its own from the same one.
    """

    __slots__ = _FIELDS

    def __init__(self, epoch: int, sent: int, received: int, channel: int) -> None:
        self.epoch = epoch
        self.sent = sent
        self.received = received
        self.channel = channel

    def __repr__(self) -> str:
        return f"Bookmark({', '.join(f'{name}={value}' for name, value in self.numbers().items())})"

    def numbers(self) -> dict[str, int]:
        """For writing it down."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def of(cls, numbers: object) -> Bookmark:
        """What ``numbers`` gave. Raises ``LocalProtocolError`` for anything else."""
        if isinstance(numbers, dict) and sorted(numbers) == sorted(_FIELDS):
            values = [numbers[name] for name in _FIELDS]
            if all(type(value) is int and 0 <= value < 1 << 63 for value in values) and values[-1] % 2:
                return cls(*values)
        raise LocalProtocolError("not a bookmark")
