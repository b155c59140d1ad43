"""A noun: what is known of a secret but for its value."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from dayfly.errors import InputError
from dayfly.limits import Checked, Unfit
from dayfly.names import checked_name
from dayfly.network import host_pattern, secret_name, starred
from dayfly.owner import Owner

__all__ = ["MOST_HOSTS", "Entry", "covered"]

MOST_HOSTS = 64
"""Of one secret: what is for more is for everybody."""


class Entry(Checked):
    """Raises ``PolicyError``."""

    name: str

    hosts: tuple[str, ...]
    """Where it may be sent, as in rules: a name, or ``*.`` and a name. None: nowhere."""

    tenant: str | None = None
    """Whose it is. ``None``: anybody's whose policy may name it."""

    conversation: str | None = None
    """Of the tenant: the only one that it is for."""

    source: Literal["file", "keyring", "environment"] = "file"
    """Where its value is."""

    created: float | None = None
    """Seconds since 1970."""

    @field_validator("name")
    @classmethod
    def _a_name(cls, name: str) -> str:
        return secret_name(name)

    @field_validator("hosts")
    @classmethod
    def _one_spelling(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if len(hosts) > MOST_HOSTS:
            raise Unfit(f"{len(hosts)} hosts are too many", f"a secret is for {MOST_HOSTS} at most")
        return tuple(dict.fromkeys(host_pattern(one) for one in hosts))

    @field_validator("tenant", "conversation")
    @classmethod
    def _somebody(cls, value: str | None) -> str | None:
        try:
            return value if value is None else checked_name("whose a secret is", value)
        except InputError as error:
            raise Unfit(error.message, "leave it out where it is for everybody") from None

    @model_validator(mode="after")
    def _of_a_tenant(self) -> Entry:
        if self.conversation is not None and self.tenant is None:
            raise Unfit("conversations are named by tenants, each as it likes", "say of which tenant (--tenant)")
        return self

    @property
    def owner(self) -> Owner:
        return Owner(self.tenant or "", self.conversation)

    def covers(self, pattern: str | None) -> bool:
        """Whether all that a rule's ``leads_to`` stands for is among its hosts."""
        return pattern is not None and covered(pattern, self.hosts)


def covered(pattern: str, by: tuple[str, ...]) -> bool:
    """``*.example.com`` covers ``a.example.com`` and itself; nothing covers a star but the same star."""
    return pattern in by or starred(pattern) in by
