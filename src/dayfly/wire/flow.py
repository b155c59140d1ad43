"""Windows: how many bytes each side may still send on a channel, and what all channels together may make us hold."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # the C part alone: importing all of collections costs 4 ms inside gVisor

FRAME_COST = 256
"""Bytes that a frame counts beyond its payload, in every window and cap: what Python spends on holding one. Without it
a million frames of one byte would pass as a megabyte and take three hundred."""

MAX_CHANNELS = 64
"""Channels that one side may have open at once. Enough for a pool of parallel calls; each costs a window."""

MAX_CHANNEL = (1 << 32) - 1
"""Highest channel number. Numbers are never used twice."""

WINDOW = 128 * 1024
"""Bytes that a channel starts with, in either direction: a few pipe buffers."""

MAX_EVENT = 32 * 1024
"""Bytes of one event's payload: a path of 4 KiB whose every byte is escaped fits."""

EVENT_RESERVE = MAX_EVENT + 16 * 1024
"""Bytes of every window that data leaves to events, so that a process can be stopped whose input nobody reads: room for
the largest event and fifty small ones."""

BULK_WINDOW = 2 * 1024 * 1024
"""Bytes that a transfer's receiver may raise a channel's window to, while the pool lasts."""

POOL = 16 * 1024 * 1024
"""Bytes by which all windows together may be raised."""

MAX_UNCONSUMED = 2 * MAX_CHANNELS * WINDOW + POOL
"""Bytes of data, frame costs included, that a peer can make the application of this side hold: 32 MiB."""

MIN_CREDIT = WINDOW // 4
"""Bytes. Credit is given back by the quarter window; smaller crumbs can only be meant to keep us busy."""

MAX_CREDIT = WINDOW + POOL
"""Bytes. No honest window is larger; a peer that grants more lies about its memory."""

MAX_PINGS = 16
"""Pings that may be unanswered. One is enough to see that the other side lives."""

MAX_UNACKED = 8 * 1024 * 1024
"""Bytes sent and not acknowledged at which ``Data`` stops: all of them are kept for a resume. Honest peers acknowledge
every 256 KiB."""

FAIR_SHARE = 32 * 1024
"""Unacknowledged bytes that a channel may have beyond that: a flood on the others cannot starve it. All together: 4 MiB."""

MAX_UNACKED_CALLS = 16 * 1024 * 1024
"""Unacknowledged bytes at which ``Open`` and ``Event`` are refused here, and credit and ``Pong`` wait. Above what data
may take, so that an interrupt gets through whatever is being uploaded."""

MAX_UNACKED_ALL = 24 * 1024 * 1024
"""Unacknowledged bytes at which the peer is broken. Only ends and closings get this far: an honest peer reads."""

ACK_BYTES = 256 * 1024
ACK_FRAMES = 64


class Channel:
    """Flow state of one open channel, from this side's view.

    Invariant: ``allowance + taken +`` (what the application has not consumed, with frame costs) ``== window``.
    """

    __slots__ = ("allowance", "begun", "cancelled", "credit", "eof_received", "eof_sent", "events", "frames", "mine", "taken", "unacked",
                 "waiting", "window")  # fmt: skip

    def __init__(self, mine: bool) -> None:
        self.mine = mine  # this side opened it
        self.cancelled = False
        self.credit = WINDOW  # bytes this side may send
        self.unacked = 0  # bytes of data sent and not acknowledged
        self.window = WINDOW
        self.allowance = WINDOW  # bytes the peer may send
        self.taken = 0  # bytes consumed here and not yet given back as credit
        self.waiting = 0  # bytes received and not consumed
        self.frames: deque[int] = deque()  # sizes of data, to give a frame's cost back with its last byte
        self.begun = 0  # bytes consumed of the first of them
        self.events: dict[int, int] = {}  # how many events of which size
        self.eof_sent = 0  # bit n: stream n has ended
        self.eof_received = 0

    @property
    def room(self) -> int:
        """Bytes of data that may be sent now."""
        return self.credit - EVENT_RESERVE - FRAME_COST

    def spend(self, size: int) -> None:
        self.credit -= size + FRAME_COST

    def arrive(self, size: int, event: bool) -> None:
        """A message of ``size`` bytes is the application's from now on, until it is consumed."""
        cost = size + FRAME_COST
        if cost > self.allowance:
            raise RemoteProtocolError(f"{size} bytes received, window had {self.allowance - FRAME_COST}")
        self.allowance -= cost
        self.waiting += size
        if event:
            self.events[size] = self.events.get(size, 0) + 1
        else:
            self.frames.append(size)

    def consume(self, size: int) -> None:
        """Events are consumed whole, data in any pieces; both in any order.

        A piece of data may have the size of an event. Then the two change places, and the sum is the same.
        """
        if not 0 <= size <= self.waiting:
            raise LocalProtocolError(f"{size} bytes consumed, {self.waiting} received")
        self.waiting -= size
        self.taken += size
        if size in self.events:
            self._forget_event(size)
            return
        self.begun += size
        while self.frames and self.begun >= self.frames[0]:
            self.begun -= self.frames.popleft()
            self.taken += FRAME_COST

    def forget(self) -> None:
        """The channel has ended: nothing will be consumed any more."""
        self.frames.clear()
        self.events.clear()

    def _forget_event(self, size: int) -> None:
        self.taken += FRAME_COST
        self.events[size] -= 1
        if not self.events[size]:
            del self.events[size]

    @property
    def due(self) -> bool:
        """Whether what was taken is worth a frame of credit."""
        return self.taken * 4 >= self.window

    def give(self) -> int:
        """The credit to send now."""
        credit, self.taken = self.taken, 0
        self.allowance += credit
        return credit

    def earn(self, amount: int) -> None:
        if amount < MIN_CREDIT or self.credit + amount > MAX_CREDIT:
            raise RemoteProtocolError(f"credit of {amount} bytes is out of range")
        self.credit += amount


class Pool:
    """The budget for raised windows."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = POOL

    def raise_window(self, channel: Channel, target: int) -> None:
        """Raise to ``target`` bytes as far as the budget goes."""
        extra = min(max(0, target - channel.window), self.left)
        self.left -= extra
        channel.window += extra
        channel.taken += extra

    def release(self, channel: Channel) -> None:
        self.left += channel.window - WINDOW
