"""A noun: what was asked for and not given."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Denial"]


@dataclass(frozen=True)
class Denial:
    """A destination that code inside asked for and did not get.

    ``port`` is ``None`` for a name that was only to be resolved. ``code`` is one word (``not_listed``, ``private_address``, ...; see
    docs/network.md), ``reason`` and ``remedy`` are a sentence each. ``claimed``: only the agent inside says so; the others were
    seen by the gateway. ``began``: in learn mode, what it looked like by its first bytes (``tls``, ``http``, ``postgres``,
    ``other``), where any came. ``count``: so many times. A literal address dies inside, where nobody sees it, and is not listed.
    """

    host: str
    port: int | None
    code: str
    reason: str
    remedy: str
    claimed: bool = False
    count: int = 1
    began: str | None = None
