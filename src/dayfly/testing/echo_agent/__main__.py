"""A stand-in for the agent, for the boundary contract kit. Runs inside; Python 3.9+, standard library only.

It reads orders from standard input, each a line of JSON, and answers on standard output:

* ``{"echo": N}``: the next N bytes come back as they are.
* ``{"run": SOURCE}``: executes Python. What ``reply(value)`` is called with comes back as a line of JSON, and after the
  end, ``{"done": true}`` or ``{"error": TEXT}``. A ``fork``ed child that returns ends there.

At end of file it ends.
"""

from __future__ import annotations

import json
import os
import sys

IN, OUT = 0, 1
PIECE = 1 << 16


class Input:
    def __init__(self) -> None:
        self._held = b""

    def line(self) -> bytes:
        while b"\n" not in self._held:
            data = os.read(IN, PIECE)
            if not data:
                sys.exit(0)
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return line

    def some(self, limit: int) -> bytes:
        if self._held:
            data, self._held = self._held[:limit], self._held[limit:]
            return data
        return os.read(IN, min(limit, PIECE))


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(OUT, view) :]


def reply(value: object) -> None:
    write(json.dumps(value).encode() + b"\n")


def echo(source: Input, count: int) -> None:
    while count:
        data = source.some(count)
        if not data:
            sys.exit(0)
        write(data)
        count -= len(data)


def run(code: str) -> None:
    me = os.getpid()
    try:
        exec(code, {"reply": reply, "os": os, "sys": sys})  # noqa: S102 - its purpose: a test says what happens inside
        answer: dict[str, object] = {"done": True}
    except BaseException as error:  # noqa: BLE001 - told to the test
        answer = {"error": f"{type(error).__name__}: {error}"}
    if os.getpid() != me:
        os._exit(0)
    reply(answer)


def main() -> None:
    source = Input()
    while True:
        order = json.loads(source.line())
        if "echo" in order:
            echo(source, order["echo"])
        else:
            run(order["run"])


main()
