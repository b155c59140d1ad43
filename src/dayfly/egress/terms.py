"""A noun: all that the gateway is told of one sandbox."""

from __future__ import annotations

from pydantic import Field

from dayfly.limits import Checked
from dayfly.network import PackageKind, RuleList

__all__ = ["Authority", "Terms"]


class Authority(Checked):
    """A certificate authority of one sandbox, as PEM. It is in memory only, here and with the manager."""

    certificate: str
    key: str = Field(repr=False)


class Terms(Checked):
    rules: RuleList = ()

    authority: Authority | None = None
    """Whose certificates the sandbox believes; there where a rule looks inside of TLS."""

    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    """Values by the names that rules use: those that there are, and that may go to where the rule leads."""

    indexes: dict[PackageKind, str] = Field(default_factory=dict, repr=False)
    """URLs of the package indexes that this machine is set to; what credentials are in them stays here."""
