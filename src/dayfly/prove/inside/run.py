"""Carries out attempts, each in a process of its own: one that dies or hangs says nothing, and the next one goes on.

Standard input: a line of JSON for each, ``{"attempt", "arguments", "seconds"}`` or ``{"challenge": text}``. Standard output: a line of JSON
for each.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

MOST_BYTES = 65536  # of one answer


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "challenge" in asked:
            tell({"answer": hashlib.sha256(asked["challenge"].encode()).hexdigest()})
        else:
            tell(apart(asked))


def tell(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


def apart(one: dict[str, Any]) -> dict[str, Any]:
    """The row of one attempt."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setsid()
        os._exit(attempted(one, theirs))
    os.close(theirs)
    said, in_time = all_of(ours, time.monotonic() + one["seconds"])
    os.close(ours)
    killed(child)
    if not in_time:
        return {"failed": "it was not done in %g s" % one["seconds"]}
    try:
        row: dict[str, Any] = json.loads(said)
        return row
    except ValueError:
        return {"failed": "its process has ended without a word"}


def attempted(one: dict[str, Any], to: int) -> int:
    try:
        module, function = one["attempt"].split(".")
        tried, reached, *told = getattr(importlib.import_module(module), function)(**one["arguments"])
        row = {"tried": tried, "reached": [str(item)[:200] for item in reached][:20], "told": told}
    except BaseException as error:  # also an exit: whatever an attempt raises is its row, and this process ends
        row = {"failed": "%s: %s" % (type(error).__name__, str(error)[:200])}
    os.write(to, json.dumps(row).encode())
    return 0


def all_of(ours: int, until: float) -> tuple[bytes, bool]:
    said = b""
    while len(said) < MOST_BYTES:
        if not select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
            return said, False
        more = os.read(ours, MOST_BYTES)
        if not more:
            break
        said += more
        if said.endswith(b"}"):  # the row is whole; what holds the pipe besides does not matter
            break
    return said, True


def killed(child: int) -> None:
    for whom in (-child, child):
        try:
            os.kill(whom, signal.SIGKILL)
        except OSError:
            pass
    os.waitpid(child, 0)
