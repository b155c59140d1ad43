"""How much was asked of the network, all sandboxes together: numbers, and nobody's name."""

from __future__ import annotations

from collections import Counter

from dayfly.egress.client import Closed
from dayfly.egress.verdict import CODES
from dayfly.spec import Denial

__all__ = ["Tally"]


class Tally:
    """Since the manager was made. ``denied`` by code and whether only an agent said so; bytes in both directions of connections
    that have ended, ``connections`` of them."""

    def __init__(self) -> None:
        self.denied: Counter[tuple[str, bool]] = Counter()
        self.connections = 0
        self.sent = 0
        self.received = 0

    def add_denied(self, denial: Denial) -> None:
        code = denial.code if denial.code in CODES else "other"
        self.denied[code, denial.claimed] += denial.count

    def add_closed(self, closed: Closed) -> None:
        self.connections += 1
        self.sent += closed.sent
        self.received += closed.received
