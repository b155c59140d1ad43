"""Answers without the secret that a server has sent back, in the spellings in which servers do that.

Law: what comes out does not depend on how the pieces are cut, and nothing but spellings of the secret is changed.

What cannot be found: what a server encrypts, compresses inside of a body, reverses, or sends in parts by one answer each.
"""

from __future__ import annotations

import re
from itertools import chain

from dayfly.egress.http.messages import Body
from dayfly.egress.services.spelling import Form, amid, forms_of, pattern
from dayfly.network import SHORTEST_REDACTED

__all__ = ["Cleaned", "Spellings", "Stream"]

_FENCES = b"*#~|^!_-.\t"
"""Of which one stands around what is put in the place of a secret: one that is in none of its spellings, so that no
spelling can come about there. A tab is in no value."""


class Spellings:
    """Of texts that are to be found. ``usable``: whether they can be told from other text."""

    def __init__(self, *texts: str) -> None:
        self.usable = bool(texts) and all(len(text) >= SHORTEST_REDACTED for text in texts)
        self._texts = tuple(text for text in texts if text)
        forms = [form for text in self._texts for form in forms_of(text)]
        self._forms = tuple((form, _first(form), sum(len(place[0]) for place in form) - 1) for form in forms)
        self._pattern = re.compile(b"|".join(map(pattern, forms)) or b"(?!)")
        self._alone = tuple(re.compile(pattern(form)) for form in forms)
        self._instead = _instead(tuple(chain.from_iterable(place for form in forms for place in form)))

    def are_in(self, data: bytes) -> bool:
        """Each is looked for by what it begins with; of all at once that is not known."""
        return any(one.search(data) for one in self._alone)

    def are_in_name(self, name: str) -> bool:
        """Whether a header's name, which is in small letters, has one as it is."""
        return any(one.lower() in name for one in self._texts)

    def cleaned(self, data: bytes) -> bytes:
        """Of a text that is whole."""
        return self._pattern.sub(lambda _: self._instead, data) if self.are_in(data) else data

    def clean(self, data: bytes) -> tuple[bytes, bytes]:
        """What can go on of a text that has not ended, and the rest: it may be the beginning of a spelling."""
        done, at, end = [], 0, self._undecided(data, 0)
        if self.are_in(data):
            while (match := self._pattern.search(data, at)) and match.start() < end:
                done += [data[at : match.start()], self._instead]
                at = match.end()
                end = end if at <= end else self._undecided(data, at)
        return b"".join((*done, data[at:end])), data[end:]

    def _undecided(self, data: bytes, at: int) -> int:
        return min((_begins(*one, data, at) for one in self._forms), default=len(data))


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
        close = getattr(self._body, "aclose", None)
        if close is not None:
            await close()


def _instead(spellings: tuple[bytes, ...]) -> bytes:
    fences = (_FENCES[at : at + 1] for at in range(len(_FENCES)))
    fence = next((one for one in fences if not any(one in spelling for spelling in spellings)), b"\t")
    return fence * 2 if b"redacted" in spellings else fence + b"redacted" + fence


def _first(form: Form) -> re.Pattern[bytes]:
    """What spellings begin with."""
    return re.compile(b"|".join({re.escape(spelling[:1]) for spelling in form[0]}))


def _begins(form: Form, first: re.Pattern[bytes], most: int, data: bytes, at: int) -> int:
    """The first place, from ``at`` on, where ``data`` ends amid a spelling, which has ``most`` bytes more than one at most; its end
    where there is none."""
    places = (match.start() for match in first.finditer(data, max(at, len(data) - most)))
    return next((place for place in places if amid(form, data[place:])), len(data))
