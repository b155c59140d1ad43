"""Packages by name, from the index that the host is set to."""

from __future__ import annotations

from typing import Literal

from dayfly.limits import Checked
from dayfly.network.grant import Grant, Place

__all__ = ["PACKAGES_HOST", "Packages", "PackagesRule"]

PACKAGES_HOST = "packages.dayfly.internal"
"""Where the indexes are inside, in plain HTTP: what is spoken there goes no further than to the gateway."""


class Packages(Checked):
    """Raises ``PolicyError``."""

    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    min_age: int = 0
    """Days that a file has been there."""
    wheels_only: bool = True


class PackagesRule(Grant):
    packages: Packages

    @property
    def places(self) -> tuple[Place, ...]:
        return ((PACKAGES_HOST, (80,)),)

    @property
    def leads_to(self) -> None:
        return None

    @property
    def key(self) -> tuple[object, ...]:
        return ("packages",)

    @property
    def spoken(self) -> Literal["http"]:
        return "http"

    @property
    def service(self) -> Literal["packages"]:
        return "packages"
