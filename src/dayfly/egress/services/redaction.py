"""Answers without the secret that a server has sent back, in the spellings in which servers do that.

Law: what comes out does not depend on how the pieces are cut, and nothing but spellings of the secret is changed.

What cannot be found: what a server encrypts, compresses inside of a body, reverses, or sends in parts by one answer each.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from dayfly.egress.http.messages import Body
from dayfly.network import SHORTEST_REDACTED

__all__ = ["Cleaned", "Spellings", "Stream"]

_FENCES = b"*#~|^!_-.\t"
"""Of which one stands around what is put in the place of a secret: one that is in none of its spellings, so that no
spelling can come about there. A tab is in no value."""

_GLANCE = 16  # bytes that are compared first: a long secret costs no more than a short one


class Spellings:
    """Of texts that are to be found. ``usable``: whether they can be told from other text."""

    def __init__(self, *texts: str) -> None:
        found = {one for text in texts for one in _spellings(text) if one}
        self.usable = bool(texts) and all(len(text) >= SHORTEST_REDACTED for text in texts)
        self._all = tuple(sorted(found, key=lambda one: (-len(one), one)))  # of two at one place the longer
        self._pattern = re.compile(b"|".join(re.escape(one) for one in self._all))
        self._instead = _instead(self._all)

    def are_in(self, data: bytes) -> bool:
        return any(one in data for one in self._all)

    def are_in_name(self, name: str) -> bool:
        """Whether a header's name, which is in small letters, has one."""
        return any(one.lower() in name.encode("latin-1").lower() for one in self._all)

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
        return min((_begins(one, data, at) for one in self._all), default=len(data))


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
    return fence * 2 if any(one in b"redacted" for one in spellings) else fence + b"redacted" + fence


def _begins(spelling: bytes, data: bytes, at: int) -> int:
    """The first place, from ``at`` on, where ``data`` ends amid the spelling; its end where there is none."""
    place = max(at, len(data) - len(spelling) + 1)
    while (place := data.find(spelling[:1], place)) >= 0:
        if spelling.startswith(data[place : place + _GLANCE]) and spelling.startswith(data[place:]):
            return place
        place += 1
    return len(data)


def _spellings(text: str) -> Iterator[bytes]:
    for one in (text, *_percent(text), *_json(text), *_html(text)):
        yield one.encode()
    raw = text.encode()
    yield from (raw.hex().encode(), raw.hex().upper().encode())
    yield from _base64(raw)


def _percent(text: str) -> Iterator[str]:
    for safe in ("", "/", "!'()*", "!$&'()*+,;=:@", "!$&'()*+,;=:@/"):  # the last two: as in paths
        for one in (quote(text, safe=safe), quote_plus(text, safe=safe)):
            yield one
            yield re.sub(r"%[0-9A-F]{2}", lambda escape: escape[0].lower(), one)


def _json(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        plain = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for one in (plain, re.sub("[<>&']", lambda mark: f"\\u{ord(mark[0]):04x}", plain)):  # for inside of a page
            for escaped in (one, one.replace("/", "\\/")):
                yield escaped
                yield re.sub(r"\\u[0-9a-f]{4}", lambda escape: "\\u" + escape[0][2:].upper(), escaped)


def _html(text: str) -> Iterator[str]:
    plain = html.escape(text, quote=False)
    for quotes in (("", ""), ("&quot;", "&#x27;"), ("&quot;", "&#39;"), ("&#34;", "&#39;"), ("&quot;", "&#039;")):
        one = plain.replace('"', quotes[0] or '"').replace("'", quotes[1] or "'")
        yield one
        yield one.replace("+", "&#43;")


def _base64(raw: bytes) -> Iterator[bytes]:
    """Whole, and amid something longer: there its first and last letter belong to the neighbours, too."""
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(raw)
        yield whole
        yield whole.rstrip(b"=")
        for before in range(3):
            text = encode(bytes(before) + raw)
            yield text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
