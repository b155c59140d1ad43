"""The gateway: hears what the manager asks, over one socket, and lets through what the rules of each sandbox allow.

A packet that does not fit ends the process, and so does the end of that socket: without a manager nothing passes.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Any

from dayfly.egress.dialling import Dialler
from dayfly.egress.guests import MOST_CONNECTIONS, Guest
from dayfly.egress.packets import TO_GATEWAY, BadPacket, Packets
from dayfly.egress.passage import Passage
from dayfly.egress.resolving import Resolver
from dayfly.egress.terms import Terms
from dayfly.errors import PolicyError
from dayfly.limits import AS_KEPT

__all__ = ["leave", "serve"]

MOST_IN_ALL = 4096
"""Connections of all sandboxes at once, where the process may have so many descriptors: two each."""

SPARE_DESCRIPTORS = 600
"""For look-ups, and for the process itself."""

MOST_RULE_TEXT = 8 << 20
"""Characters of a sandbox's rules as JSON: 256 of them with 64 ports each are far less."""

LAST_WORDS_SECONDS = 3.0
"""For the connections of a sandbox that is withdrawn to end, which is a matter of milliseconds."""

MOST_TOGETHER = 64
"""Packets that are dealt with before connections get their turn."""


async def serve(end: socket.socket, ended: Callable[[int], None], verified: ssl.SSLContext) -> None:
    """Serve whoever has the other end of ``end``. ``ended`` is called with an exit code, and is not to return. ``verified``: for
    servers outside."""
    service = _Service(Packets(end, TO_GATEWAY, gifts=True), ended, verified)
    await service.run()


class _Service:
    def __init__(self, packets: Packets, ended: Callable[[int], None], verified: ssl.SSLContext) -> None:
        self._packets = packets
        self._verified = verified
        self._ended = ended
        self._dialler = Dialler(Resolver())
        self._guests: dict[str, Guest] = {}
        self._parts: dict[str, list[str]] = {}
        self._passages: dict[int, Passage] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}  # of the passages
        self._leaving: set[asyncio.Task[None]] = set()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = max(8, min(MOST_IN_ALL, (descriptors - SPARE_DESCRIPTORS) // 2))

    async def run(self) -> None:
        asyncio.get_running_loop().add_reader(self._packets.fileno(), self._incoming)
        self._packets.post({"op": "ready"})
        await asyncio.Event().wait()

    def _incoming(self) -> None:
        try:
            for _ in range(MOST_TOGETHER):
                received = self._packets.receive()
                if received is None:
                    return
                self._deal(*received)
        except (BadPacket, OSError):
            self._ended(1)
        except EOFError:
            self._ended(0)

    def _deal(self, packet: dict[str, Any], gift: socket.socket | None) -> None:
        if packet["op"] == "connect":
            self._connect(packet, gift)
            return
        if gift is not None:
            gift.close()
            raise BadPacket("a descriptor with no connection")
        {"admit": self._admit, "withdraw": self._withdraw, "end": self._end}[packet["op"]](packet)

    # --- sandboxes --------------------------------------------------------------------------------------------------

    def _admit(self, packet: dict[str, Any]) -> None:
        name = packet["sandbox"]
        parts = self._parts.setdefault(name, [])
        parts.append(packet["part"])
        if sum(map(len, parts)) > MOST_RULE_TEXT:
            raise BadPacket("rules without end")
        if not packet["last"]:
            return
        del self._parts[name]
        try:
            terms = Terms.model_validate_json("".join(parts), context=AS_KEPT)
        except PolicyError:  # this side is of another version; what it says might have a secret in it
            self._packets.post({"op": "refused", "id": packet["id"], "text": "they are not what this version knows"})
            return
        guest = self._guests.setdefault(name, Guest())
        guest.admit(terms)
        for number in tuple(guest.connections):
            self._passages[number].judge_again()
        self._packets.post({"op": "done", "id": packet["id"]})

    def _withdraw(self, packet: dict[str, Any]) -> None:
        guest = self._guests.pop(packet["sandbox"], None)
        ending: set[asyncio.Task[None]] = set()
        if guest is not None:
            guest.admit(Terms())  # for what is being dialled
            for number in tuple(guest.connections):
                ending.add(self._tasks[number])
                self._passages[number].end("withdrawn")
        leaving = asyncio.ensure_future(self._taken_leave(packet["id"], ending))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _taken_leave(self, number: int, ending: set[asyncio.Task[None]]) -> None:
        """The last words of every connection go before the answer, with which the sandbox is forgotten."""
        if ending:
            await asyncio.wait(ending, timeout=LAST_WORDS_SECONDS)
        self._packets.post({"op": "done", "id": number})

    # --- connections ------------------------------------------------------------------------------------------------

    def _connect(self, packet: dict[str, Any], gift: socket.socket | None) -> None:
        number = packet["id"]
        guest = self._guests.get(packet["sandbox"])
        text = self._no_room(guest) if gift is not None else "The gateway has no descriptor left."
        if text is not None or guest is None or gift is None:
            if gift is not None:
                gift.close()
            self._packets.post({"op": "unreachable", "id": number, "text": text})
            return
        if number in self._passages:
            gift.close()
            raise BadPacket("two connections of one number")
        passage = Passage(number, guest, self._dialler, self._packets, gift, self._verified)
        self._passages[number] = passage
        guest.connections.add(number)
        task = self._tasks[number] = asyncio.ensure_future(passage.run(packet["host"], packet["port"]))
        task.add_done_callback(lambda done: self._forget(done, number, guest))

    def _no_room(self, guest: Guest | None) -> str | None:
        if guest is None:
            return "The gateway has no rules of this sandbox."
        if len(guest.connections) >= MOST_CONNECTIONS:
            return f"This sandbox has {MOST_CONNECTIONS} connections open, and may have no more at once; close some."
        if len(self._passages) >= self._most:
            return "All sandboxes together have as many connections open as there may be; try again later."
        return None

    def _forget(self, task: asyncio.Task[None], number: int, guest: Guest) -> None:
        del self._tasks[number], self._passages[number]
        guest.connections.discard(number)
        if task.cancelled() or task.exception() is not None:
            self._ended(70)  # nobody would ever be told of the connection's end

    def _end(self, packet: dict[str, Any]) -> None:
        passage = self._passages.get(packet["id"])
        if passage is not None:
            passage.end("ended")


def leave(code: int) -> None:
    """At once, whatever threads are waiting for."""
    os._exit(code)
