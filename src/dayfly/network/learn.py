"""Learn mode: nothing is reached, and what would have been asked for is written down."""

from __future__ import annotations

from typing import Literal

__all__ = ["LEARN_PORTS", "Beginning", "beginning"]

LEARN_PORTS = (
    21, 22, 25, 80, 389, 443, 465, 587, 636, 993, 1433, 1883, 3306, 5432, 5671, 5672, 6379, 8000, 8080, 8443, 9092, 9200, 11434, 27017
)  # fmt: skip
"""On which every name is listened for: what services speak on by convention. A connection to any other port is refused inside,
and then only its name is known."""

Beginning = Literal["tls", "http", "postgres", "other"]
"""What a connection looked like by its first bytes. A guess for whoever writes the rule: nothing is decided by it."""

ENOUGH = 16
"""Bytes that tell any of them."""

_METHODS = tuple(f"{one} ".encode() for one in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "CONNECT", "PRI"))  # fmt: skip
_POSTGRES = tuple(bytes([0, 0, 0, 8, 4, 210, 22, last]) for last in (47, 48))  # asks for TLS, or for Kerberos


def beginning(data: bytes) -> Beginning | None:
    """``None``: that is not to be told yet."""
    if data.startswith(b"\x16\x03"):
        return "tls"
    if data.startswith(_METHODS):
        return "http"
    if data.startswith(_POSTGRES):
        return "postgres"
    return "other" if len(data) >= ENOUGH else None
