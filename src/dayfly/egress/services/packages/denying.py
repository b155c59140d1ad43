"""What is denied, in one form."""

from __future__ import annotations

from dayfly.egress.http.messages import Refused
from dayfly.egress.verdict import Denied
from dayfly.network import PACKAGES_HOST

__all__ = ["not_listed", "refused"]

_SPOKEN = {"python": "Python", "node": "npm"}


def refused(reason: str, remedy: str, code: str = "package_not_listed") -> Refused:
    return Refused(Denied(PACKAGES_HOST, 80, code, reason, remedy))


def not_listed(kind: str, name: str) -> Refused:
    """``name`` has the form of a package's name."""
    return refused(
        f"The {_SPOKEN[kind]} package {name} is not on this sandbox's list of packages.",
        f"Use another, or ask for a rule whose packages.{kind} has '{name}' (and what it depends on).",
    )
