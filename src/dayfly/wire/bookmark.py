"""Where the host's side of a silent connection stands: all that it takes to go on with it, later and elsewhere."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError

__all__ = ["Bookmark"]

_FIELDS = ("epoch", "sent", "received", "channel", "heard")


class Bookmark:
    """Numbers: of the epoch, of the last frame sent and received, of the next channel to open, and of the last one that the
    peer opened (``heard``; 0: none).

    Each of several copies of the peer (restores of one snapshot) is met with a connection of its own from the same one.
    """

    __slots__ = _FIELDS

    def __init__(self, epoch: int, sent: int, received: int, channel: int, heard: int = 0) -> None:
        self.epoch = epoch
        self.sent = sent
        self.received = received
        self.channel = channel
        self.heard = heard

    def __repr__(self) -> str:
        return f"Bookmark({', '.join(f'{name}={value}' for name, value in self.numbers().items())})"

    def numbers(self) -> dict[str, int]:
        """For writing it down."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def of(cls, numbers: object) -> Bookmark:
        """What ``numbers`` gave, also before peers opened channels. Raises ``LocalProtocolError`` for anything else."""
        if isinstance(numbers, dict) and sorted({"heard": 0, **numbers}) == sorted(_FIELDS):
            made = cls(**numbers)
            whole = all(type(value) is int and 0 <= value < 1 << 63 for value in made.numbers().values())
            if whole and made.channel % 2 and not made.heard % 2:
                return made
        raise LocalProtocolError("not a bookmark")
