"""What a Python process has drawn at random and keeps, drawn anew: two restores of one snapshot must not agree.

Runs in the kernel, of which code of the user's may have changed anything: whatever a step raises, the others are done.
What asks the system each time (``os.urandom``, ``secrets``, ``uuid4``) needs nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ENTROPY = 64
"""Bytes given to OpenSSL, whose generators are keyed with 32."""


def renew(keep_seeds: bool) -> dict[str, object]:
    """Names of what was renewed, and of what goes on as it was. With ``keep_seeds``, what code may have seeded does."""
    renewed: list[str] = []
    kept: list[str] = []
    for name, may_be_seeded, work in STEPS:
        module = sys.modules.get(name)
        if module is not None:
            done = not (keep_seeds and may_be_seeded) and _succeeds(work, module)
            (renewed if done else kept).append(name)
    return {"renewed": renewed, "kept": kept}


def _succeeds(work: Callable[[Any], None], module: object) -> bool:
    try:
        work(module)
    except BaseException:
        return False
    return True


def _reseed(module: Any) -> None:
    module.seed()


def _stir(ssl: Any) -> None:
    """All of OpenSSL's generators draw anew from the one that this feeds."""
    ssl.RAND_add(os.urandom(ENTROPY), float(ENTROPY))


def _forget_names(tempfile: Any) -> None:
    tempfile._name_sequence = None


def _forget_node(uuid: Any) -> None:
    """Of ``uuid1``: where there is no network card, its number was drawn once, and the C library keeps it for good."""
    uuid._generate_time_safe = None
    uuid._node = int.from_bytes(os.urandom(6), "big") | 1 << 40  # the mark of a number that is no card's
    uuid._last_timestamp = None


def _draw_key(process: Any) -> None:
    """By which processes that ``multiprocessing`` starts know each other: in a fork, there may be some."""
    process.current_process().authkey = os.urandom(32)


STEPS: tuple[tuple[str, bool, Callable[[Any], None]], ...] = (
    ("random", True, _reseed),
    ("numpy.random", True, _reseed),
    ("ssl", False, _stir),
    ("tempfile", False, _forget_names),
    ("uuid", False, _forget_node),
    ("multiprocessing.process", True, _draw_key),
)
"""Module, whether code may have seeded it on purpose (or relies on what it drew), and what renews it."""
