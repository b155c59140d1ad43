"""Answers without the secret that a server has sent back, in the spellings in which servers do that.

Law: what comes out does not depend on how the pieces are cut, and nothing but spellings of the secret is changed. When it comes out
does not depend on the secret: whoever saw that a text waits, since it might be a beginning, would guess the rest letter by letter.

What cannot be found: what a server encrypts, compresses inside of a body, reverses, or sends in parts by one answer each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain

from dayfly.egress.http.messages import Body, closed
from dayfly.egress.services.spelling import Form, forms_of, pattern
from dayfly.network import unredactable

__all__ = ["Cleaned", "Spellings", "Stream"]

_FENCES = b"*#~|^!_-.\t"
"""Of which one stands around what is put in the place of a secret: one that is in none of its spellings, so that no
spelling can come about there. A tab is in no value."""


_LINE_END = b"\n"
"""Is in no value, so that what a server says in lines (events, logs) waits for nothing."""

_GLANCE = 32
"""Bytes that are looked at first: a long secret costs little more than a short one."""

Span = tuple[int, int]


class Spellings:
    """Of texts that are to be found. ``usable``: whether they can be; otherwise nothing is."""

    def __init__(self, *texts: str) -> None:
        self.usable = not any(unredactable(text) for text in texts)
        self._texts = texts if self.usable else ()
        forms = [form for text in self._texts for form in forms_of(text)]
        everything = tuple(chain.from_iterable(place for form in forms for place in form))
        self._most = max((sum(len(place[0]) for place in form) for form in forms), default=1) - 1
        self._has_lines = any(_LINE_END in spelling for spelling in everything)
        self._finders = tuple(_finder(form) for form in forms)
        self._instead = _instead(everything)

    def are_in_name(self, name: str) -> bool:
        """Whether a header's name, which is in small letters, has one as it is."""
        return any(one.lower() in name for one in self._texts)

    def cleaned(self, data: bytes) -> bytes:
        """Of a text that is whole."""
        done, at = [], 0
        for start, stop in self._found(data):
            done += [data[at:start], self._instead]
            at = stop
        return b"".join((*done, data[at:]))

    def clean(self, data: bytes) -> tuple[bytes, bytes]:
        """What can go on of a text that has not ended, and the rest."""
        done, at, end = [], 0, self._decided(data)
        for start, stop in self._found(data):
            if start >= end:
                break
            done += [data[at:start], self._instead]
            at = stop
        end = max(at, end)
        return b"".join((*done, data[at:end])), data[end:]

    def _found(self, data: bytes) -> Iterator[Span]:
        """One after another, the first form's before another's. Each place is looked at once for each form."""
        ahead = [find(data, 0) for find in self._finders]
        while (nearest := min((span for span in ahead if span), key=lambda span: span[0], default=None)) is not None:
            yield nearest
            for number, span in enumerate(ahead):
                if span and span[0] < nearest[1]:
                    ahead[number] = self._finders[number](data, nearest[1])

    def _decided(self, data: bytes) -> int:
        """No spelling that is longer than ``data`` shows begins before it: whole lines, and all but as much as one may have. Of a text
        without lines only pieces that are worth a search."""
        lines = 0 if self._has_lines else data.rfind(_LINE_END) + 1
        return max(lines, len(data) - self._most) if lines or len(data) >= 2 * self._most else 0


class Stream:
    """A text in pieces."""

    def __init__(self, spellings: Spellings) -> None:
        self._spellings = spellings
        self._kept = b""

    def feed(self, piece: bytes) -> bytes:
        done, self._kept = self._spellings.clean(self._kept + piece)
        return done

    def finish(self) -> bytes:
        kept, self._kept = self._kept, b""
        return self._spellings.cleaned(kept)


class Cleaned:
    """A body without the spellings. Not a generator: one that was never begun would not close the body behind it."""

    def __init__(self, body: Body, spellings: Spellings) -> None:
        self._body = body
        self._stream = Stream(spellings)
        self._over = False

    def __aiter__(self) -> Cleaned:
        return self

    async def __anext__(self) -> bytes:
        while not self._over:
            if piece := await self._next():
                return piece
        raise StopAsyncIteration

    async def _next(self) -> bytes:
        try:
            return self._stream.feed(await anext(self._body))
        except StopAsyncIteration:
            self._over = True
            return self._stream.finish()

    async def aclose(self) -> None:
        self._over = True
        await closed(self._body)


def _instead(spellings: tuple[bytes, ...]) -> bytes:
    fences = (_FENCES[at : at + 1] for at in range(len(_FENCES)))
    fence = next((one for one in fences if not any(one in spelling for spelling in spellings)), b"\t")
    return fence * 2 if b"redacted" in spellings else fence + b"redacted" + fence


def _finder(form: Form) -> Callable[[bytes, int], Span | None]:
    if len(form) > 1 or len(form[0]) > 1:
        search = re.compile(pattern(form)).search
        return lambda data, at: match.span() if (match := search(data, at)) else None
    [[literal]] = form
    return lambda data, at: _find(literal, data, at)


def _find(literal: bytes, data: bytes, at: int) -> Span | None:
    """Without a pattern: a long one would take long to make."""
    while (at := data.find(literal[:_GLANCE], at)) >= 0:
        if data.startswith(literal, at):
            return at, at + len(literal)
        at += 1
    return None
