"""Windows: how many bytes each side may still send on a channel, and what all channels together may make us hold."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError

MAX_CHANNELS = 64
"""Channels that one side may have open at once. Enough for a pool of parallel calls; each costs a window."""

WINDOW = 128 * 1024
"""Bytes that a channel starts with, in either direction: a few pipe buffers."""

BULK_WINDOW = 2 * 1024 * 1024
"""Bytes that a transfer's receiver may raise a channel's window to, while the pool lasts."""

POOL = 16 * 1024 * 1024
"""Bytes by which all windows together may be raised. With 2 x 64 channels at 128 KiB: at most 32 MiB held in all."""

MAX_CREDIT = 1 << 31
"""Credit that a peer may have given and we did not use: more can only be an attempt to overflow something."""

MAX_UNACKED = 8 * 1024 * 1024
"""Bytes that may be sent and not acknowledged: they are kept for a resume. Honest peers acknowledge every 256 KiB."""

ACK_BYTES = 256 * 1024
ACK_FRAMES = 64


class Channel:
    """Flow state of one open channel, from this side's view."""

    __slots__ = ("allowance", "credit", "eof_received", "eof_sent", "mine", "taken", "window")

    def __init__(self, mine: bool) -> None:
        self.mine = mine  # this side opened it
        self.credit = WINDOW  # bytes this side may send
        self.allowance = WINDOW  # bytes the peer may send
        self.window = WINDOW
        self.taken = 0  # bytes consumed here and not yet given back as credit
        self.eof_sent: set[int] = set()
        self.eof_received: set[int] = set()

    def spend(self, size: int) -> None:
        if size > self.credit:
            raise LocalProtocolError(f"{size} bytes to send, window has {self.credit}")
        self.credit -= size

    def arrive(self, size: int) -> None:
        if size > self.allowance:
            raise RemoteProtocolError(f"{size} bytes received, window had {self.allowance}")
        self.allowance -= size

    def earn(self, amount: int) -> None:
        if amount == 0 or self.credit + amount > MAX_CREDIT:
            raise RemoteProtocolError(f"credit of {amount} bytes is out of range")
        self.credit += amount

    def consume(self, size: int, give: bool = True) -> int:
        """Bytes of credit to give back now (0: not worth a frame yet, or ``give`` is false: nothing can be sent)."""
        self.taken += size
        if self.taken + self.allowance > self.window:
            raise LocalProtocolError("more consumed than received")
        if not give or self.taken * 4 < self.window:
            return 0
        credit, self.taken = self.taken, 0
        self.allowance += credit
        return credit


class Pool:
    """The budget for raised windows."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = POOL

    def raise_window(self, channel: Channel, target: int) -> int:
        """Raise to ``target`` bytes as far as the budget goes; returns the credit to send (0: none)."""
        extra = min(max(0, target - channel.window), self.left)
        self.left -= extra
        channel.window += extra
        channel.allowance += extra
        return extra

    def release(self, channel: Channel) -> None:
        self.left += channel.window - WINDOW
