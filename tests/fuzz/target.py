"""A reader of hostile bytes, as something that a fuzzer can try: bytes in, and whatever it does but return is a finding."""

from __future__ import annotations

import asyncio
import signal
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from dayfly.testing.clock import HeldClockLoop

__all__ = ["JSON_WORDS", "MIB", "Endless", "Greedy", "Target", "held", "may_be_shown", "pieces", "trial", "weighed"]

MIB = 1 << 20


JSON_WORDS = (
    b"\\u001b", b"\\u0000", b"\\ud800", b"\\u00e9", b"\\\"", b"null", b"true", b"-1", b"1e999", b"NaN", b"{}", b"[]", b"[[[[[[[[", b'{"a":', b",",
    b'""', b"1.5", b"18446744073709551616",
)  # fmt: skip
"""What JSON can say and its readers may not expect."""


class Endless(Exception):
    """It took more of the CPU than any input is worth."""


class Unseen(AssertionError):
    """Something went wrong in the loop, and no caller was told."""


class Greedy(AssertionError):
    """It took more memory than it says that it takes."""


@dataclass(frozen=True)
class Target:
    """``check`` gives the input to the reader and asserts what must hold. ``reads`` are the modules whose branches count.

    ``memory``: bytes that one input may take at most, beyond what was there. ``seconds``: of the CPU; what is honest takes
    milliseconds. ``longest``: bytes of an input. ``examples``: how many the short form tries. ``close`` ends what ``check`` has kept for
    the next input.
    """

    name: str
    check: Callable[[bytes], None]
    reads: tuple[ModuleType, ...]
    seeds: tuple[bytes, ...]
    memory: int = 8 * MIB
    seconds: float = 5.0
    longest: int = 16 * 1024
    examples: int = 400
    words: tuple[bytes, ...] = ()
    close: Callable[[], None] = lambda: None


@contextmanager
def _ends(seconds: float) -> Iterator[None]:
    """Raises ``Endless`` when so much of the CPU was used: waiting counts as nothing, whatever else the machine does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Endless(f"more than {seconds:g} s of the CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def trial(target: Target, data: bytes) -> None:
    """Raises whatever the reader raises that it may not, ``AssertionError`` for what does not hold, ``Endless``."""
    with _ends(target.seconds):
        target.check(data)


def weighed(target: Target, data: bytes) -> None:
    """As ``trial``, several times slower; raises ``Greedy``, too."""
    tracemalloc.start()
    try:
        with _ends(8 * target.seconds):
            target.check(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > target.memory:
        raise Greedy(f"{peak} bytes for {len(data)}, {target.memory} allowed")


LONGEST_WAIT = 100_000.0
"""Seconds of the held clock, which pass at once: longer than any deadline that a reader has."""


def held(work: Coroutine[Any, Any, Any]) -> Any:
    """On a clock that is held: whoever waits for what never comes is at his deadline at once, and raises ``TimeoutError``. What fails where
    nobody looks is raised, too."""
    unseen: list[BaseException] = []

    async def bounded() -> Any:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, what: unseen.append(what.get("exception") or Unseen(what["message"]))
        )
        async with asyncio.timeout(LONGEST_WAIT):
            return await work

    with asyncio.Runner(loop_factory=HeldClockLoop) as runner:
        found = runner.run(bounded())
    if unseen:
        raise unseen[0]
    return found


def may_be_shown(text: str) -> None:
    """What an error says of hostile bytes is text, on one line, and bounded."""
    assert text.isprintable(), ascii(text)
    assert len(text) < 4096, len(text)


def pieces(data: bytes, sizes: bytes) -> Iterator[bytes]:
    """``data`` cut as ``sizes`` say, over and over: a byte of 0 is all that is left."""
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)] if sizes else 0
        piece = data[at : at + size] if size else data[at:]
        yield piece
        at, number = at + len(piece), number + 1
