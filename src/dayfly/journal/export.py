"""Signed heads as text, to be kept where whoever can change the journal cannot reach."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dayfly.errors import InputError
from dayfly.journal.entry import Head
from dayfly.journal.signing import Verifier
from dayfly.journal.store import SignedHead

__all__ = ["dump_heads", "load_heads"]


def dump_heads(verifier: Verifier, heads: Iterable[SignedHead]) -> str:
    """One JSON object a line: the server's public key first, then where each chain stood."""
    lines: list[dict[str, object]] = [{"public_key": verifier.public.hex()}]
    lines += [one.as_json() for one in heads]
    return "".join(json.dumps(line) + "\n" for line in lines)


def load_heads(text: str) -> tuple[Verifier, list[SignedHead]]:
    """What ``dump_heads`` made. Raises ``InputError`` for anything else, and for a head that the key did not sign."""
    try:
        key, *rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        verifier = Verifier(bytes.fromhex(key["public_key"]))
        heads = [_head(row) for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"these are no exported heads: {error}", remedy="export them with: dayfly journal heads"
        ) from None
    for one in heads:
        if not verifier.accepts(one.head, one.signature):
            raise InputError(f"the exported head of {one.head.chain!a:.80} was not signed by the key above it")
    return verifier, heads


def _head(row: dict[str, object]) -> SignedHead:
    chain, number = row["chain"], row["number"]
    if not isinstance(chain, str) or type(number) is not int:
        raise ValueError("a head without its chain or number")
    return SignedHead(Head(chain, number, bytes.fromhex(str(row["hash"]))), bytes.fromhex(str(row["signature"])))
