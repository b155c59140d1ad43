"""Bytes both ways between two sockets, as fast as one core goes, with a bounded buffer for whoever does not read.

What arrives is read into one buffer that all tunnels share, and handed to the other socket at once. Only what that one does
not take is kept, and nothing more is read from there until it is gone: the kernel stops the sender.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from dayfly.egress.meter import Meter

__all__ = ["SIZE", "Relay"]

SIZE = 256 * 1024
"""Bytes that are moved at once, and that wait at most in one direction of a tunnel: as much as a socket's buffer holds."""

_shared = memoryview(bytearray(SIZE))


class Relay:
    """``ended`` is called once, with why: ``done``, ``ended`` (by the sandbox), ``reset`` (by the server) or ``byte_cap``."""

    def __init__(
        self,
        sandbox: socket.socket,
        upstream: socket.socket,
        meter: Meter,
        ended: Callable[[str], None],
    ) -> None:
        self.meter = meter
        self._ended = ended
        self._out = _Flow(self, sandbox, upstream, "ended", "reset")
        self._in = _Flow(self, upstream, sandbox, "reset", "ended")
        self._open = True

    @property
    def sent(self) -> int:
        """Bytes that were handed to the server."""
        return self._out.moved

    @property
    def received(self) -> int:
        return self._in.moved

    def start(self, head: bytes) -> None:
        """``head`` goes to the server first; it was read before."""
        if self.meter.beyond(len(head)):
            self.end("byte_cap")
            return
        self._out.begin(head)
        self._in.begin(b"")

    def flowed(self) -> None:
        if self._out.over and self._in.over:
            self.end("done")

    def end(self, why: str) -> None:
        """Stop. The sockets are the caller's. Idempotent."""
        if self._open:
            self._open = False
            self._out.stop()
            self._in.stop()
            self._ended(why)


class _Flow:
    """One direction."""

    # asyncio gets numbers: of a socket that it does not know it would make a whole sentence, with its addresses, to throw it away.

    def __init__(self, relay: Relay, source: socket.socket, sink: socket.socket, *whose: str) -> None:
        self.moved = 0
        self.over = False  # the end was passed on
        self._relay = relay
        self._source = source
        self._sink = sink
        self._source_failed, self._sink_failed = whose
        self._loop = asyncio.get_running_loop()
        self._left = memoryview(b"")  # that the sink did not take
        self._at_end = False
        self._stopped = False
        self._waits: Meter | None = None  # in its line
        self._waited = False  # and now it is this one's turn

    def begin(self, head: bytes) -> None:
        if head:
            self._relay.meter.move(len(head))
            self._pass(memoryview(head))
        self._read_on()

    def stop(self) -> None:
        self._stopped = True
        self._loop.remove_reader(self._source.fileno())
        self._loop.remove_writer(self._sink.fileno())
        if self._waits is not None:
            self._waits.leave(self._its_turn)
            self._waits = None

    def _read_on(self) -> None:
        if not (self._stopped or self._at_end or self._left):
            self._loop.add_reader(self._source.fileno(), self._readable)

    def _wait(self, meter: Meter) -> None:
        self._loop.remove_reader(self._source.fileno())
        self._waits = meter
        meter.wait(self._its_turn)

    def _its_turn(self) -> None:
        self._waits, self._waited = None, True
        self._read_on()

    def _readable(self) -> None:
        meter = self._relay.meter
        room = meter.room(SIZE, waited=self._waited)
        self._waited = False
        try:
            if not room and not meter.spent:
                self._wait(meter)
                return
            count = self._source.recv_into(_shared, room) if room else self._peek()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._relay.end(self._source_failed)
            return
        if not count:
            self._end_of_source()
        elif not room:
            self._relay.end("byte_cap")
        else:
            meter.move(count)
            self._pass(_shared[:count])

    def _peek(self) -> int:
        """Whether there is more, when there may be no more: the end itself is no byte."""
        return len(self._source.recv(1, socket.MSG_PEEK))

    def _pass(self, data: memoryview) -> None:
        done = self._send(data)
        if done is not None and done < len(data):
            self._left = memoryview(bytes(data[done:]))
            self._loop.remove_reader(self._source.fileno())
            self._loop.add_writer(self._sink.fileno(), self._writable)

    def _send(self, data: memoryview) -> int | None:
        try:
            done = self._sink.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._relay.end(self._sink_failed)
            return None
        self.moved += done
        return done

    def _writable(self) -> None:
        done = self._send(self._left)
        if done is None:
            return
        self._left = self._left[done:]
        if not self._left:
            self._left = memoryview(b"")  # lets go of the buffer
            self._loop.remove_writer(self._sink.fileno())
            self._read_on()

    def _end_of_source(self) -> None:
        self._at_end = True
        self._loop.remove_reader(self._source.fileno())
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._relay.end(self._sink_failed)
            return
        self.over = True
        self._relay.flowed()
