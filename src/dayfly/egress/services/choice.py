"""Which service answers a connection."""

from __future__ import annotations

from dayfly.egress.http.messages import Service
from dayfly.egress.services.packages import PackagesService
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed
from dayfly.network import PackagesRule

__all__ = ["service_of"]


def service_of(allowed: Allowed, terms: Terms) -> Service:
    """For a rule that has one."""
    if terms.rules[allowed.rule].service == "packages":
        grants = [(number, rule) for number, rule in enumerate(terms.rules) if isinstance(rule, PackagesRule)]
        return PackagesService(grants, terms)
    raise NotImplementedError(allowed, terms)
