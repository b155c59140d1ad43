"""A gateway that somebody has taken over: run as a program, with the manager's socket as standard input and a lie to tell."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

HUGE = 2**70
CONNECTED = {"op": "connected", "host": "a.example", "rule": 0, "address": "192.0.2.1"}
DENIED = {"op": "denied", "host": "a.example", "code": "not_listed", "reason": "No.", "remedy": "None."}
CLOSED = {"op": "closed", "sent": 1, "received": 2, "why": "done", "code": None, "reason": None, "remedy": None}
UNREACHABLE = {"op": "unreachable", "text": "No."}

LIES: dict[str, list[Any]] = {
    # answers to the first connect; "id" is filled in where there is none. Bytes go as they are.
    "no JSON": [b"\xff\xfe"],
    "an empty packet": [b""],
    "JSON that is no object": [b"[1,2]"],
    "JSON without a bottom": [b"[" * 30_000],
    "a number without end": [b'{"op":"done","id":' + b"9" * 20_000 + b"}"],
    "not a number": [b'{"op":"done","id":NaN}'],
    "a packet too long": [b" " * 100_000],
    "no op": [{"id": 1}],
    "an op of its own": [{"op": "execute"}],
    "an op that is asked, not answered": [{"op": "withdraw", "sandbox": "one"}],
    "a field too many": [{**DENIED, "more": 1}],
    "a field too few": [{"op": "denied"}],
    "text for a number": [{**CONNECTED, "rule": "0"}],
    "a truth for a number": [{**CONNECTED, "rule": True}],
    "a fraction": [{**CONNECTED, "rule": 0.5}],
    "less than nothing": [CONNECTED, {**CLOSED, "sent": -1}],
    "more than there is": [CONNECTED, {**CLOSED, "received": HUGE}],
    "text without end": [{**UNREACHABLE, "text": "x" * 5000}],
    "ready again": [{"op": "ready"}],
    "done with nothing": [{"op": "done"}],
    "an answer to nobody": [{**DENIED, "id": 999}],
    "a connection of nobody": [{**CONNECTED, "id": 999}],
    "an end of nobody": [{**CLOSED, "id": 999}],
    "closed before it was open": [CLOSED],
    "connected twice": [CONNECTED, CONNECTED],
    "denied after all": [CONNECTED, DENIED],
    "closed twice": [CONNECTED, CLOSED, CLOSED],
    "connected to another host": [{**CONNECTED, "host": "b.example"}],
    "a denial of another host": [{**DENIED, "host": "b.example"}],
    "a rule that was never admitted": [{**CONNECTED, "rule": 1}],
    "no address": [{**CONNECTED, "address": "a.example"}],
    "a host of control characters": [{**CONNECTED, "host": "a\n\x1b[2J"}],
    "a code of its own": [{**DENIED, "code": "granted"}],
    "an end of its own": [CONNECTED, {**CLOSED, "why": "because"}],
    "a denial without a reason": [CONNECTED, {**CLOSED, "code": "byte_cap"}],
    "a descriptor": ["gift"],
    # these keep to the rules, or say nothing
    "screen": [{**DENIED, "reason": "\x1b[2Jr\u202e\n", "remedy": "\u0000r"}],
    "leaves": [CONNECTED, "leave"],
    "only connects": [CONNECTED],
    "counts nothing": [CONNECTED, "answer"],
    "no answer to a connect": [],
    "no answer": [],
}


def main(lie: str) -> None:
    manager = socket.socket(fileno=os.dup(0))
    if lie == "never ready":
        manager.recv(1)
    manager.send(b'{"op":"ready"}')
    while True:
        data, numbers, _, _ = socket.recv_fds(manager, 40_000, 1)
        if not data:
            return
        packet = json.loads(data)
        if packet["op"] == "connect":
            for answer in LIES[lie]:
                tell(manager, answer, packet["id"], numbers[0])
        elif packet["op"] == "end":
            if lie == "counts nothing":
                tell(manager, {**CLOSED, "sent": 0, "received": 0}, packet["id"], 0)
        elif packet.get("last", True) and lie != "no answer":
            manager.send(json.dumps({"op": "done", "id": packet["id"]}).encode())


def tell(manager: socket.socket, answer: Any, number: int, gift: int) -> None:
    if answer == "leave":
        os.close(gift)
    elif answer == "answer":
        os.write(gift, b"answer")
    elif answer == "gift":
        socket.send_fds(manager, [json.dumps({**CONNECTED, "id": number}).encode()], [0])
    else:
        manager.send(answer if isinstance(answer, bytes) else json.dumps({"id": number, **answer}).encode())


if __name__ == "__main__":
    main(sys.argv[1])
