"""Bytes between descriptors and channels, always in both directions of pressure: who cannot take stops who gives."""

from __future__ import annotations

import fcntl
import os

from dayfly.wire.frames import MAX_PAYLOAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.loop import Loop
    from dayfly.agent.session import Channel

READ_SIZE = 256 * 1024
"""Bytes taken from a pipe at once: four times what a pipe holds by default."""

PIPE_SIZE = 256 * 1024
"""Bytes of a pipe for bulk output; a writer then sleeps four times less often. Refused by a kernel: no harm."""

UNLIMITED = 1 << 62

FIONREAD = 0x541B  # Linux, x86 and arm; importing termios for it costs 8 ms inside gVisor
F_SETPIPE_SZ = 1031  # not in fcntl before Python 3.10


class Sink:
    """Where a ``Source`` puts what it reads."""

    def room(self) -> int:
        """Bytes wanted now. 0: the source pauses until ``Source.resume``."""
        raise NotImplementedError

    def take(self, stream: int, data: bytes) -> None:
        """At most ``room()`` bytes."""
        raise NotImplementedError

    def ended(self, source: Source) -> None:
        """Nothing more will come of it."""
        raise NotImplementedError


class Source:
    """Reads one descriptor into a sink. It owns it, or it is ``lent``: non-blocking already, and closed by somebody else, later."""

    def __init__(self, loop: Loop, fd: int, stream: int, sink: Sink, *, lent: bool = False) -> None:
        self.fd = fd
        self.stream = stream
        self._loop = loop
        self._sink = sink
        self._left = UNLIMITED  # bytes to read before this source counts as ended
        self._watching = False
        self._lent = lent
        if not lent:
            os.set_blocking(fd, False)

    @property
    def open(self) -> bool:
        return self.fd >= 0

    def resume(self) -> None:
        """Read again, if the sink has room."""
        if self.fd >= 0 and not self._watching and self._sink.room():
            self._watching = True
            self._loop.on_readable(self.fd, self._readable)

    def begin(self) -> None:
        """Read what is there already, and ``resume``."""
        if self.fd >= 0 and self._sink.room():
            self._readable()
            self.resume()

    def settle(self) -> None:
        """The writer that matters is dead: read what is in the pipe now and nothing that others add."""
        if self.fd >= 0:
            self._left = waiting_bytes(self.fd)
            if not self._left:
                self.close()
            else:
                self.resume()

    def close(self) -> None:
        """Idempotent; the sink is told once."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        self._loop.not_readable(fd)
        if not self._lent:
            self._loop.forget(fd)
            os.close(fd)
        self._sink.ended(self)

    def _readable(self) -> None:
        room = self._sink.room()
        if not room:
            self._pause()
            return
        try:
            data = os.read(self.fd, min(room, READ_SIZE, self._left))
        except BlockingIOError:
            return
        except OSError:  # EIO: the last holder of a terminal's other end is gone
            data = b""
        if not data:
            self.close()
            return
        self._left -= len(data)
        self._sink.take(self.stream, data)
        if not self._left:
            self.close()
        elif not self._sink.room():
            self._pause()

    def _pause(self) -> None:
        if self.fd >= 0:
            self._watching = False
            self._loop.not_readable(self.fd)


class Drain:
    """Writes bytes that came on a channel to a descriptor, and gives credit as it goes. It owns it, or it is ``lent``: see ``Source``.

    ``on_lost`` is called once nobody reads there any more.
    """

    def __init__(
        self,
        loop: Loop,
        fd: int,
        channel: Channel,
        on_lost: Callable[[], None] | None = None,
        *,
        lent: bool = False,
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._channel = channel
        self._waiting: list[bytes] = []  # bounded by the channel's window
        self._ending: Callable[[], None] | None = None
        self._on_lost = on_lost
        self._lent = lent
        if not lent:
            os.set_blocking(fd, False)

    def write(self, data: bytes) -> None:
        """Bytes for a reader that is gone are dropped, as a shell does."""
        if self._fd < 0 or self._ending:
            self._channel.consume(len(data))
            return
        self._waiting.append(data)
        self._writable()

    def end(self, how: Callable[[], None] | None = None) -> None:
        """After all that is waiting: call ``how``, or close."""
        self._ending = how or self.close
        if not self._waiting:
            self._ending()

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        self._loop.not_writable(fd)
        if not self._lent:
            self._loop.forget(fd)
            os.close(fd)
        self._give_up()

    def _give_up(self) -> None:
        lost, self._waiting = self._waiting, []
        for data in lost:
            self._channel.consume(len(data))

    def _writable(self) -> None:
        try:
            while self._waiting:
                size = os.write(self._fd, self._waiting[0])
                self._channel.consume(size)
                self._waiting[0] = self._waiting[0][size:]
                if not self._waiting[0]:
                    del self._waiting[0]
        except BlockingIOError:
            self._loop.on_writable(self._fd, self._channel.guarded(self._writable))
            return
        except OSError:  # EPIPE: nobody reads any more
            self.close()
            if self._on_lost is not None:
                self._on_lost()
            return
        self._loop.not_writable(self._fd)
        if self._ending:
            self._ending()


def waiting_bytes(fd: int) -> int:
    """How much can be read from a pipe, socket or terminal right now."""
    answer = fcntl.ioctl(fd, FIONREAD, b"\0\0\0\0")
    return int.from_bytes(answer, "little")


def pipe(size: int = PIPE_SIZE) -> tuple[int, int]:
    """A pipe (reading end, writing end), enlarged if the kernel lets us."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        fcntl.fcntl(write_end, F_SETPIPE_SZ, size)
    except OSError:  # above the user's quota of pipe memory: a small pipe is a pipe too
        return read_end, write_end
    return read_end, write_end


MAX_CHUNK = MAX_PAYLOAD
"""Bytes of Data that one frame can carry."""
