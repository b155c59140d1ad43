"""Packets between the manager and the gateway: one JSON object each, on a socket that keeps their bounds.

One table lists every packet with the shape of all that is in it, and both sides check against it: what does not fit is a
``BadPacket``, and whoever sent it is taken for broken. Never anything is repaired.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["MAX_PACKET", "MAX_PART", "TO_GATEWAY", "TO_MANAGER", "BadPacket", "Packets", "pair"]

MAX_PACKET = 32 * 1024
"""Bytes. Far below a socket's buffer (208 KiB), so that a packet goes as a whole or not at all."""

MAX_PART = 12 * 1024
"""Characters of a text that is sent in parts. ASCII of which every character may need a backslash still fits a packet."""

MAX_TEXT = 1024
"""Characters of any other text: a name of 506 that was quoted is the longest."""

MAX_NUMBER = 2**63
"""No count of bytes, and no number of a tunnel, comes near."""

MAYBE_STR = (str, type(None))

TO_GATEWAY: dict[str, dict[str, object]] = {
    # The rules of a sandbox, new or changed: JSON in parts of at most MAX_PART, the last of which says so.
    "admit": {"id": int, "sandbox": str, "part": str, "last": bool},
    "withdraw": {"id": int, "sandbox": str},
    # With it comes one descriptor: the gateway's end of the tunnel's bytes.
    "connect": {"id": int, "sandbox": str, "host": str, "port": int},
    # The tunnel is not wanted any more. One that the gateway does not know has just ended.
    "end": {"id": int},
}
TO_MANAGER: dict[str, dict[str, object]] = {
    "ready": {},
    "done": {"id": int},  # answers admit (its last part) and withdraw
    "refused": {"id": int, "text": str},  # answers admit: the rules cannot be used
    # A connect has one or two answers, the last of which is denied, unreachable or closed.
    # address: "" where the gateway answers itself, and connects when it is asked something
    "connected": {"id": int, "host": str, "rule": int, "address": str},
    "denied": {"id": int, "host": str, "code": str, "reason": str, "remedy": str},
    "unreachable": {"id": int, "text": str},
    # A request on a connection that is open and that the gateway answers itself: status as the sandbox sees it. rule: the one that
    # allowed it; secret: the name of the one that it was given; code, reason, remedy: where it was denied
    "request": {
        "id": int,
        "method": str,
        "path": str,
        "status": int,
        "rule": (int, type(None)),
        "secret": MAYBE_STR,
        "address": str,
        "code": MAYBE_STR,
        "reason": MAYBE_STR,
        "remedy": MAYBE_STR,
    },
    # why: see tunnel.py. code, reason, remedy: when a rule ended it
    "closed": {
        "id": int,
        "sent": int,
        "received": int,
        "why": str,
        "code": MAYBE_STR,
        "reason": MAYBE_STR,
        "remedy": MAYBE_STR,
    },
}
"""By the packet's ``op``."""


class BadPacket(Exception):
    """The other side has sent what it never sends."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends. Raises ``OSError``."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Packets:
    """One end, on the running loop. It owns the socket, and closes it and what it gives away with ``close_end``.

    ``expected`` is the table of what arrives here. With ``gifts`` a packet may bring one descriptor; without, the kernel
    throws away whatever is sent along.
    """

    def __init__(
        self,
        end: socket.socket,
        expected: Mapping[str, Mapping[str, object]],
        *,
        gifts: bool,
        close_end: Callable[[socket.socket], None] = socket.socket.close,
    ) -> None:
        end.setblocking(False)
        self._end = end
        self._close_end = close_end
        self._expected = expected
        self._room = socket.CMSG_SPACE(4) if gifts else 0
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[bytes, socket.socket | None, asyncio.Future[None]]] = deque()

    def fileno(self) -> int:
        return self._end.fileno()

    def post(self, packet: Mapping[str, object], gift: socket.socket | None = None) -> asyncio.Future[None]:
        """Send in turn. Done when the kernel has it; an ``OSError`` if it never will. Closes ``gift`` in every case."""
        data = json.dumps(packet, separators=(",", ":")).encode("ascii")
        if len(data) > MAX_PACKET:
            raise ValueError(f"a packet of {len(data)} bytes")
        sent: asyncio.Future[None] = self._loop.create_future()
        sent.add_done_callback(lambda one: one.cancelled() or one.exception())  # not everybody waits for it
        self._queue.append((data, gift, sent))
        if len(self._queue) == 1:
            self._flush()
        return sent

    def _flush(self) -> None:
        while self._queue:
            data, gift, _ = self._queue[0]
            try:
                if gift is None:
                    self._end.send(data)
                else:
                    socket.send_fds(self._end, [data], [gift.fileno()])
            except BlockingIOError:
                self._loop.add_writer(self._end, self._flush)
                return
            except OSError as error:
                self._settle(error)
            else:
                self._settle(None)
        self._loop.remove_writer(self._end)

    def _settle(self, error: OSError | None) -> None:
        _, gift, sent = self._queue.popleft()
        if gift is not None:
            self._close_end(gift)
        if not sent.done():
            sent.set_exception(error) if error else sent.set_result(None)

    def receive(self) -> tuple[dict[str, Any], socket.socket | None] | None:
        """The next packet, or ``None`` if there is none now. Raises ``EOFError`` at the end, ``BadPacket``, ``OSError``."""
        try:
            data, ancillary, flags, _ = self._end.recvmsg(MAX_PACKET, self._room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None
        gift = _gift(ancillary)
        try:
            if not data:
                raise EOFError
            if flags & socket.MSG_TRUNC:
                raise BadPacket(f"a packet of more than {MAX_PACKET} bytes")
            if flags & socket.MSG_CTRUNC and not self._room:
                raise BadPacket("a descriptor where none is wanted")
            return parse(data, self._expected), gift
        except BaseException:
            if gift is not None:
                gift.close()
            raise

    def close(self) -> None:
        """What is still to be sent is not. Idempotent."""
        if self._end.fileno() < 0:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
        while self._queue:
            self._settle(BrokenPipeError("closed"))
        self._close_end(self._end)


def _gift(ancillary: list[tuple[int, int, bytes]]) -> socket.socket | None:
    """The one descriptor; there is room for no second one."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and len(data) >= 4:
            number = int.from_bytes(data[:4], sys.byteorder)
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=number)
    return None


def parse(data: bytes, expected: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """The packet with its ``op``, checked. Raises ``BadPacket``."""
    try:
        packet = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError):
        raise BadPacket("not JSON") from None
    if not isinstance(packet, dict) or not isinstance(packet.get("op"), str) or packet["op"] not in expected:
        raise BadPacket("no packet of the table")
    shape = expected[packet["op"]]
    if packet.keys() != {"op", *shape}:
        raise BadPacket(f"fields of {packet['op']} are missing or unknown")
    for name, kinds in shape.items():
        _check(packet["op"], name, packet[name], kinds if isinstance(kinds, tuple) else (kinds,))
    return packet


def _check(op: str, name: str, value: object, kinds: tuple[object, ...]) -> None:
    longest = MAX_PART if name == "part" else MAX_TEXT
    good = type(value) in kinds
    if isinstance(value, str):
        good = good and len(value) <= longest
    elif isinstance(value, int | float):
        good = good and 0 <= value < MAX_NUMBER  # no comparison holds for what is not finite, and none needs a float
    if not good:
        raise BadPacket(f"{op}.{name} is of the wrong type or size")
