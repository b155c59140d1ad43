"""One entry and how it is chained to the one before: pure values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dayfly.errors import InputError

__all__ = [
    "BEGINNING",
    "BEGUN",
    "ENDED",
    "ERASED",
    "GENESIS",
    "HEAD",
    "MAX_FACTS",
    "OPENED",
    "PAUSED",
    "RESUMED",
    "RETIRED",
    "SERVER",
    "Entry",
    "Head",
    "content_digest",
    "dump_facts",
]

GENESIS = bytes(32)
"""What the first entry of a chain follows."""

SERVER = "server"
"""The chain of what concerns no single sandbox: starts, refusals, and which sandboxes there were."""

MAX_FACTS = 64 * 1024
"""Bytes of an entry's facts. What may be longer, or must be erasable, is content, of which facts have the digest."""

HEAD, BEGINNING = "head", "beginning"
"""What is signed: where a chain ends, and what it begins after since older entries were retired."""

BEGUN = "chain.begun"
"""Kind of the server's entry that names a new chain, so that none can vanish as a whole."""

ERASED = "contents.erased"
"""Kind of the server's entry of a tenant whose contents were erased: those of all entries written before it."""

RETIRED = "entries.retired"
"""Kind of the server's entry that older ones were removed; ``erased_until`` in it is the id of the last of kind ``ERASED``."""

OPENED, ENDED = "sandbox.opened", "sandbox.ended"
PAUSED, RESUMED = "sandbox.paused", "sandbox.resumed"
"""Kinds of a sandbox's first and last entry."""

_FORMAT = "dayfly journal 1"


@dataclass(frozen=True)
class Head:
    """Where a chain stands: the number and hash of its last entry."""

    chain: str
    number: int
    hash: bytes

    def statement(self, purpose: str) -> bytes:
        """The bytes that are signed; ``purpose`` keeps a signature from being used for anything else."""
        return _canonical([_FORMAT, purpose, self.chain, self.number, self.hash.hex()])


@dataclass(frozen=True)
class Entry:
    """``number`` counts in its chain from 1; ``at`` is the wall clock in nanoseconds since 1970; ``facts`` is JSON text."""

    chain: str
    number: int
    at: int
    tenant: str
    kind: str
    facts: str
    previous: bytes

    @property
    def hash(self) -> bytes:
        """SHA-256 over everything above, and so over all entries before."""
        values = [
            _FORMAT,
            "entry",
            self.chain,
            self.number,
            self.at,
            self.tenant,
            self.kind,
            self.facts,
            self.previous.hex(),
        ]
        return hashlib.sha256(_canonical(values)).digest()

    @property
    def head(self) -> Head:
        return Head(self.chain, self.number, self.hash)


def dump_facts(facts: Mapping[str, Any]) -> str:
    """Canonical JSON text. Raises ``InputError`` for what is no plain JSON, or too long."""
    try:
        text = _canonical(facts).decode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the facts of a journal entry must be JSON: {error}") from None
    if len(text) > MAX_FACTS:
        raise InputError(f"the facts of a journal entry have {len(text)} bytes, {MAX_FACTS} are allowed")
    return text


def content_digest(salt: bytes, data: bytes) -> str:
    """What facts keep of a content. The salt is erased with it: a short content could be guessed from a bare digest."""
    return hashlib.sha256(salt + data).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
