"""A driver's end of the control socket, and the one place where SIGINT may break in: user code."""

from __future__ import annotations

import _thread
import os
import time

from dayfly.agent.kernels.records import HEADER, encode
from dayfly.wire.payloads import load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal  # without the enums around it


READ_SIZE = 64 * 1024
"""Bytes read at once: a bigger buffer would be mapped and unmapped for every request, 100 us inside gVisor."""


TURN_SECONDS = 0.001
"""Between two looks whether another thread has sent its record."""


class Turn:
    """A lock that nobody holds for long. Python's own (before 3.13) reads the clock whenever it is taken: a system call in a
    gVisor's first second, and that is when somebody waits for what they have just claimed."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = [True]

    def __enter__(self) -> None:
        while True:
            try:
                self._free.pop()  # one step for Python: no two threads get it
            except IndexError:
                time.sleep(TURN_SECONDS)
            else:
                return

    def __exit__(self, *_: object) -> None:
        self._free.append(True)


class Interrupts:
    """Turns SIGINT into ``KeyboardInterrupt``, but only while ``armed`` and never in the middle of a record."""

    __slots__ = ("_held", "_pending", "armed", "fired")

    def __init__(self) -> None:
        self.armed = False
        self.fired = False
        self._held = False
        self._pending = False

    def survive_hangups(self) -> None:
        """The agent stops processes to kill them; their group, and that is the kernel's, then gets a SIGHUP.

        A handler, since what is ignored would stay ignored in programs that are started.
        """
        signal.signal(signal.SIGHUP, _ignore)

    def install(self) -> None:
        """Take SIGINT (back), which user code may have taken for itself."""
        if signal.getsignal(signal.SIGINT) != self._handle:
            signal.signal(signal.SIGINT, self._handle)

    def arm(self) -> None:
        self.fired = self._pending = False
        self.armed = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._pending = True
        elif self.armed:
            self.fired = True
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Main thread only: from here to ``release`` an interrupt waits."""
        self._held = True

    def release(self) -> None:
        self._held = False
        if self._pending:
            self._pending = False
            self._handle(signal.SIGINT, None)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


class Link:
    """Records over the control descriptor. Any thread may send; only the process that made the link does."""

    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        self._fd = fd
        self._interrupts = interrupts
        self._buffer = bytearray()
        self._unread = b""
        self._late = b""
        self._turn = Turn()
        self._main = _thread.get_ident()
        self.is_mine = True  # false in a process that user code forked: it has no say here
        os.register_at_fork(after_in_child=self._disown)  # a flag, since asking for the pid is a system call

    def _disown(self) -> None:
        self.is_mine = False

    def receive(self) -> dict[str, object] | None:
        """The agent's next record; ``None`` when the agent is gone. Nothing is lost if memory runs out on the way."""
        buffer = self._buffer
        while True:
            if len(buffer) >= HEADER.size:
                end = HEADER.size + HEADER.unpack_from(buffer)[0]
                if len(buffer) >= end:
                    record = load_json(bytes(buffer[HEADER.size : end]))
                    del buffer[:end]
                    return record  # type: ignore[return-value]
            self._unread = self._unread or os.read(self._fd, READ_SIZE)
            if not self._unread:
                return None
            buffer += self._unread
            self._unread = b""

    def send(self, record: dict[str, object]) -> None:
        self.send_bytes(encode(record))

    def send_with_next(self, data: bytes) -> None:
        """An encoded record that goes with the one after it: two records that come at once wake the agent once."""
        self.flush()
        self._late = data

    def flush(self) -> None:
        if self._late:
            self.send_bytes(b"")

    def send_bytes(self, data: bytes) -> None:
        """Send an encoded record, whole, whatever signals arrive."""
        if not self.is_mine:
            return
        main = _thread.get_ident() == self._main
        if main:
            self._interrupts.hold()
        try:
            with self._turn:
                view = memoryview(self._late + data if self._late else data)
                self._late = b""
                while view:
                    view = view[os.write(self._fd, view) :]
        finally:
            if main:
                self._interrupts.release()
