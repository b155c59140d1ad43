"""What a proof is made of: single attempts, as values. A probe does nothing by itself; ``trials`` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Expected", "Place", "Probe", "Property", "Severity"]


class Property(StrEnum):
    """Which promise an attempt is made against."""

    BOUNDARY = "boundary"
    NETWORK = "network"
    DNS = "dns"
    METADATA = "metadata"
    CREDENTIAL = "credential"
    FILESYSTEM = "filesystem"
    RESOURCE = "resource"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    CROSS_SANDBOX = "cross-sandbox"
    API = "api"
    ALLOW_LIST = "allow-list"
    PACKAGES = "packages"
    USEFUL = "useful"  # what must work


class Severity(StrEnum):
    """What it would mean if it were reached."""

    CRITICAL = "critical"  # code acts outside, or data leaves
    HIGH = "high"  # code learns of, or harms, the host or a neighbour
    MEDIUM = "medium"  # a second wall is missing


class Expected(StrEnum):
    DENIED = "denied"
    ALLOWED = "allowed"


class Place(StrEnum):
    """Which sandbox an attempt is made in. Attempts of one place share one, but those that might end it."""

    CLOSED = "closed"  # the policy as it is, and no network
    NAMED = "named"  # the policy with names of the proof's own internet
    SUPPLIED = "supplied"  # the policy with an object store, an API with a secret, and packages of the proof's own
    DELEGATED = "delegated"  # the policy, and no network; a zone of the operator's leads here
    DELEGATED_NAMED = "delegated, named"  # the same, and names by the gateway of production
    RESTORED = "restored"  # two that are restores of one snapshot, as warm spares are
    BESIDE = "beside"  # the policy as it is, and another sandbox beside it
    ALONE = "alone"  # one of its own, which it may break
    SERVED = "served"  # a server of this machine, by its API
    OUTSIDE = "outside"  # looked at from the host, while one is alive


@dataclass(frozen=True)
class Probe:
    """One attempt. ``attempt`` names a function: of ``prove.inside`` as ``module.function``, for ``Place.OUTSIDE`` of
    ``posture.EXAMINATIONS``, for ``Place.SERVED`` of ``callers.ATTEMPTS``. ``arguments`` are JSON; a string of them may have ``{nonce}`` and the other marks of ``Bait.marks``.

    ``seen_by``: what on the host would notice if it were reached, for people. Empty: nothing would, and a "denied" is what the
    probe's own program says of the sandbox's kernel. ``source``: where the attempt comes from. ``asks``: names that a gateway may ask
    for in its course, since a rule lists them; ``comes``: how many visits of its own a listed host has of it. ``measure``: of
    ``Place.ALONE``, what the host measures (``floods.MEASURES``).
    """

    id: str
    title: str
    property: Property
    severity: Severity
    attempt: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    place: Place = Place.CLOSED
    expected: Expected = Expected.DENIED
    seen_by: tuple[str, ...] = ()
    source: str = ""
    quick: bool = True
    question: int | None = None  # of the four questions
    seconds: float = 10.0
    asks: tuple[str, ...] = ()
    comes: int = 0
    measure: str = ""
