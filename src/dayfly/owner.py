"""A noun: whose something is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOBODY", "Owner"]


@dataclass(frozen=True)
class Owner:
    """Whose a sandbox or a secret is, by names that ``checked_name`` has accepted. Without a tenant it is nobody's in particular;
    ``conversation`` is one of the tenant's."""

    tenant: str = ""
    conversation: str | None = None


NOBODY = Owner()
