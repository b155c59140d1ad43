"""The one rule for names that callers give to what is theirs: tenants, keys, conversations, requests, chains of the journal."""

from __future__ import annotations

from dayfly.errors import InputError

__all__ = ["MAX_NAME", "checked_name"]

MAX_NAME = 256
"""Characters of a name."""


def checked_name(what: str, value: object) -> str:
    """The value, if it is a name; ``what`` it names, with its article, is for the error. Raises ``InputError``."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise InputError(f"{what} is 1 to {MAX_NAME} printable characters, not {value!a:.80}")
    return value
