"""What every rule has: places, what it may move there, and how the gateway serves it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from pydantic import Field, field_validator

from dayfly.limits import GIB, KIB, ByteSize, Checked
from dayfly.network.ranges import private_range

__all__ = ["BaseRule", "Place", "Protocol", "starred"]

Protocol = Literal["tls", "http", "tcp", "postgres"]

Place = tuple[str, tuple[int, ...]]
"""A host in its one spelling, or ``*.`` and one, and its ports."""


class BaseRule(Checked):
    """The base of every kind of rule."""

    private: IPv4Network | IPv6Network | None = None
    """Private addresses that it may lead to: exactly these. The floor of everything else stays."""

    max_bytes: ByteSize | None = Field(None, ge=1 * KIB, le=1024 * GIB)
    """Both directions together, for one sandbox's life. None: no cap."""

    rate: ByteSize | None = Field(None, ge=1 * KIB, le=1024 * GIB)
    """Bytes a second, both directions together. None: no cap."""

    @property
    def places(self) -> tuple[Place, ...]:
        """What exists inside because of it."""
        raise NotImplementedError

    @property
    def leads_to(self) -> str | None:
        """The host, or pattern of hosts, that it connects to outside. ``None``: one that only the operator has chosen."""
        raise NotImplementedError

    @property
    def key(self) -> tuple[object, ...]:
        """What it is a rule for. What was used is counted under it, also when its caps change."""
        raise NotImplementedError

    @property
    def counted(self) -> tuple[object, ...]:
        """What its bytes are counted under, for ``max_bytes`` and ``rate``: with all others where that is the same."""
        return self.key

    @property
    def spoken(self) -> Protocol:
        """How the sandbox speaks on its ports."""
        raise NotImplementedError

    @property
    def service(self) -> Literal["", "requests", "objects", "packages"]:
        """Who looks at each of its HTTP requests, inside of TLS too; ``""``: bytes pass as they are once they have begun well."""
        return ""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which programs inside find what it grants. What the user has set stays. Everybody inside reads them."""
        return {}

    @property
    def secrets(self) -> frozenset[str]:
        """Names of what the gateway has to be told for it."""
        return frozenset()

    @field_validator("private", mode="before")
    @classmethod
    def _inside_a_private_range(cls, value: object) -> object:
        return None if value is None else private_range(value)


def starred(host: str) -> str:
    """The pattern with a star that stands for ``host``; one with a star as it is."""
    return host if host.startswith("*.") else "*." + host.partition(".")[2]
