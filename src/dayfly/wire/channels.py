"""Channels: which are open, under which numbers, and what may be said on each, by whom and how often."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.flow import FRAME_COST, MAX_CHANNEL, MAX_CHANNELS, Channel, Pool
from dayfly.wire.messages import ACCEPTOR, OPENER, Cancel, Credit, Data, Eof, Event, Message, Row


class Channels:
    """All open channels of one connection, and who may open the next one under which number."""

    __slots__ = ("_closed", "_counts", "_last", "_next", "_open", "_pool")

    def __init__(self, odd_is_mine: bool) -> None:
        self._next = 1 if odd_is_mine else 2
        self._last = 0 if odd_is_mine else -1  # the peer's latest; its next one is higher by 2
        self._open: dict[int, Channel] = {}
        self._closed: dict[int, Channel] = {}  # the peer's, in the order of their ends
        self._counts = {True: 0, False: 0}  # mine, the peer's
        self._pool = Pool()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def following(self) -> int:
        """The number of the next channel that is opened here."""
        return self._next

    @following.setter
    def following(self, number: int) -> None:
        self._next = number

    @property
    def heard(self) -> int:
        """The number of the last channel that the peer opened."""
        return self._last

    @heard.setter
    def heard(self, number: int) -> None:
        self._last = number

    def get(self, number: int) -> Channel | None:
        return self._open.get(number)

    @property
    def may_open(self) -> bool:
        return self._counts[True] < MAX_CHANNELS and self._next <= MAX_CHANNEL

    def open(self) -> int:
        number, self._next = self._next, self._next + 2
        self._add(number, mine=True)
        return number

    def opened_by_peer(self, number: int) -> None:
        if number != self._last + 2:
            raise RemoteProtocolError(f"channel {number} cannot be opened by the peer now")
        if self._counts[False] >= MAX_CHANNELS:
            raise RemoteProtocolError(f"more than {MAX_CHANNELS} channels")
        self._last = number
        self._add(number, mine=False)

    def closed_here(self, number: int) -> Channel | None:
        """A channel of which late frames may still come: the peer opened it, and had not heard of the end when it spoke.

        Ends are heard in order, and whoever has not heard of this one counts all that ended since as open. So it can only
        be one of the ``MAX_CHANNELS`` that ended last.
        """
        return self._closed.get(number)

    def raise_window(self, channel: Channel, target: int) -> None:
        self._pool.raise_window(channel, target)

    def drop(self, number: int) -> None:
        channel = self._open.pop(number)
        self._counts[channel.mine] -= 1
        self._pool.release(channel)
        if not channel.mine:
            channel.forget()
            self._closed[number] = channel
            if len(self._closed) > MAX_CHANNELS:
                del self._closed[next(iter(self._closed))]

    def clear(self) -> None:
        for number in list(self._open):
            self.drop(number)
        self._closed.clear()

    def _add(self, number: int, mine: bool) -> None:
        self._open[number] = Channel(mine)
        self._counts[mine] += 1


def require_side(row: Row, channel: Channel, spoken_here: bool, error: type[ProtocolError]) -> None:
    """Only the opener cancels, only the acceptor ends."""
    speaker = OPENER if channel.mine == spoken_here else ACCEPTOR
    if row.sender in (OPENER, ACCEPTOR) and row.sender != speaker:
        raise error(f"{row.cls.__name__} from the wrong side of a channel: it is the {row.sender}'s to say")


def hear(channel: Channel, message: Message, size: int) -> int:
    """Count a message of the peer, whose payload has ``size`` bytes; returns its cost to the window."""
    if isinstance(message, (Data, Event)):
        if isinstance(message, Data) and channel.eof_received >> message.stream & 1:
            raise RemoteProtocolError(f"data after the end of stream {message.stream}")
        channel.arrive(size, event=isinstance(message, Event))
        return size
    if isinstance(message, Credit):
        channel.earn(message.amount)
    elif isinstance(message, Eof):
        if channel.eof_received >> message.stream & 1:
            raise RemoteProtocolError(f"stream {message.stream} ends twice")
        channel.eof_received |= 1 << message.stream
    elif isinstance(message, Cancel):
        if channel.cancelled:
            raise RemoteProtocolError("a channel is cancelled twice")
        channel.cancelled = True
    return 0


def say(channel: Channel, message: Message, size: int) -> bool:
    """Count a message of this side; returns whether there is any sense in sending it."""
    if isinstance(message, Event):
        if size + FRAME_COST > channel.credit:
            raise LocalProtocolError(f"{size} bytes to send, window has {channel.credit}")
        channel.spend(size)
    elif isinstance(message, Eof):
        if channel.eof_sent >> message.stream & 1:
            raise LocalProtocolError(f"stream {message.stream} has ended already")
        channel.eof_sent |= 1 << message.stream
    elif isinstance(message, Cancel):
        again, channel.cancelled = channel.cancelled, True
        return not again
    return True
