"""What a file has to be: checked while it passes, and the last piece of it is not given before that is known."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from collections.abc import Iterable, Mapping

from dayfly.egress.http.messages import Body, closed

__all__ = ["Digests", "digests_of_integrity", "digests_of_simple", "matches", "verified"]

Digests = Mapping[str, frozenset[bytes]]
"""By algorithm. A file is right when one of the strongest algorithm's is its own."""

_BY_STRENGTH = ("sha512", "sha384", "sha256", "sha1")
_SIZES = {"sha512": 64, "sha384": 48, "sha256": 32, "sha1": 20}


def digests_of_simple(hashes: Iterable[tuple[str, str]]) -> Digests:
    """Of algorithms and hexadecimal digits, as in the Simple API. Those that are unknown, weak or none are left out."""
    found: dict[str, frozenset[bytes]] = {}
    for kind, digits in hashes:
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            continue
        if kind != "sha1" and len(value) == _SIZES.get(kind):
            found[kind] = found.get(kind, frozenset()) | {value}
    return found


def digests_of_integrity(words: Iterable[str], sha1: str = "") -> Digests:
    """Of Subresource Integrity; ``sha1``: hexadecimal digits, for packages from before it."""
    found: dict[str, frozenset[bytes]] = {}
    for one in words:
        kind, _, rest = one.partition("-")
        try:
            value = b64decode(rest.partition("?")[0], validate=True)
        except ValueError:
            continue
        if len(value) == _SIZES.get(kind):
            found[kind] = found.get(kind, frozenset()) | {value}
    if not found and len(sha1) == 40:
        try:
            return {"sha1": frozenset({bytes.fromhex(sha1)})}
        except ValueError:
            pass
    return found


def matches(one: Digests, other: Digests) -> bool:
    """Whether they say the same of some algorithm, and contradict each other in none."""
    common = [kind for kind in one if kind in other]
    return bool(common) and all(one[kind] & other[kind] for kind in common)


async def verified(body: Body, wanted: Digests) -> Body:
    """The same pieces. Raises ``ConnectionResetError`` where they are not the file that was promised; with nothing wanted, nothing is."""
    kind = next((one for one in _BY_STRENGTH if one in wanted), None)
    digest = hashlib.new(kind, usedforsecurity=False) if kind else None
    held = b""
    try:
        async for piece in body:
            if digest is not None:
                digest.update(piece)
            if held:
                yield held
            held = piece
    finally:
        await closed(body)
    if digest is not None and not any(hmac.compare_digest(digest.digest(), one) for one in wanted[str(kind)]):
        raise ConnectionResetError("a file is not what the index says")
    if held:
        yield held
