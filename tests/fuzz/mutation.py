"""Inputs out of inputs: what the next one to be tried looks like."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

__all__ = ["Mutation"]

_MOST_STEPS = 6
"""Changes of one input at once. More break whatever it had that was worth keeping."""

_RUN = 64
"""Bytes that are cut, doubled or moved at once, mostly."""

_LONG_RUN = 4096

_EDGES = (0, 1, 0x7F, 0x80, 0xFF)


class Mutation:
    """``words``: what readers look for; ``known``: what their inputs are made of, which is put in as often as all the others together.
    ``longest``: bytes of an input. All chance comes from ``chance``."""

    def __init__(self, chance: random.Random, words: Sequence[bytes], known: Sequence[bytes], longest: int) -> None:
        self._chance = chance
        self._words = tuple(one for one in (tuple(words), tuple(known)) if one) or ((b"\0",),)
        self._longest = longest
        self._ways: tuple[Callable[[bytearray, bytes], None], ...] = (
            self._turn, self._set, self._count, self._cut, self._double, self._repeat, self._word, self._word, self._replace,
            self._digits, self._splice,
        )  # fmt: skip

    def of(self, data: bytes, other: bytes) -> bytes:
        """``data`` with a few changes, some of which may come from ``other``."""
        made = bytearray(data)
        for _ in range(self._chance.randint(1, _MOST_STEPS)):
            self._chance.choice(self._ways)(made, other)
            del made[self._longest :]
        return bytes(made)

    def _at(self, data: bytearray) -> int:
        return self._chance.randint(0, max(0, len(data) - 1))

    def _run(self, data: bytes | bytearray) -> slice:
        start = self._chance.randint(0, max(0, len(data) - 1))
        most = _LONG_RUN if self._chance.random() < 0.1 else _RUN if self._chance.random() < 0.5 else 4
        return slice(start, start + self._chance.randint(1, most))

    def _turn(self, data: bytearray, _: bytes) -> None:
        if data:
            data[self._at(data)] ^= 1 << self._chance.randrange(8)

    def _set(self, data: bytearray, _: bytes) -> None:
        if data:
            data[self._at(data)] = self._chance.choice((*_EDGES, self._chance.randrange(256)))

    def _count(self, data: bytearray, _: bytes) -> None:
        """One more, or one less: the lengths that are wrong by little."""
        if data:
            at = self._at(data)
            data[at] = (data[at] + self._chance.choice((-1, 1))) % 256

    def _cut(self, data: bytearray, _: bytes) -> None:
        del data[self._run(data)]

    def _double(self, data: bytearray, _: bytes) -> None:
        run = self._run(data)
        at = self._at(data)
        data[at:at] = data[run]

    def _repeat(self, data: bytearray, _: bytes) -> None:
        """Many times the same: what is checked once, and again, and again."""
        run = self._run(data)
        piece = bytes(data[run])[:_RUN]
        data[run.start : run.start] = piece * self._chance.choice((2, 8, 64, 512))

    def _a_word(self) -> bytes:
        return self._chance.choice(self._chance.choice(self._words))

    def _word(self, data: bytearray, _: bytes) -> None:
        at = self._at(data)
        data[at:at] = self._a_word()

    def _replace(self, data: bytearray, _: bytes) -> None:
        word = self._a_word()
        at = self._at(data)
        data[at : at + len(word)] = word

    def _digits(self, data: bytearray, _: bytes) -> None:
        """Numbers that are larger than anything they could count."""
        at = self._at(data)
        while at < len(data) and not chr(data[at]).isdigit():
            at += 1
        data[at:at] = self._chance.choice((b"0", b"9", b"-", b"1" * 20, b"9" * 400, b"9" * 5000, b"e9"))

    def _splice(self, data: bytearray, other: bytes) -> None:
        """What another input has."""
        at = self._at(data)
        run = self._run(other)
        data[at : at + self._chance.choice((0, run.stop - run.start))] = other[run]
