"""The judge in a box: ``python -m dayfly.prove.targets DESCRIPTOR``. Prints a row as JSON for each probe, and at last the proof."""

from __future__ import annotations

import asyncio
import ctypes
import json
import signal
import socket
import sys

from dayfly.prove.targets.box import ASKED, plan_of
from dayfly.prove.targets.judging import judged

_PR_SET_DUMPABLE = 4


def main() -> None:
    # What has no wall runs as the same user: it must not look into the judge, nor interrupt it. As the first process it gets no other signal.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    hearing = socket.socket(fileno=int(sys.argv[1]))
    hearing.set_inheritable(False)
    target, probes = plan_of(json.loads(ASKED.read_text("utf-8")))
    proof = asyncio.run(judged(target, probes, hearing, lambda row: print(row.model_dump_json(), flush=True)))  # noqa: T201
    print(proof.model_dump_json(), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
