"""Which service answers a connection."""

from __future__ import annotations

from dayfly.egress.http.messages import Service
from dayfly.egress.services.objects.service import ObjectsService
from dayfly.egress.services.packages import PackagesService
from dayfly.egress.services.requests import HostRequests
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed
from dayfly.network import ObjectsRule, PackagesRule

__all__ = ["service_of"]


def service_of(allowed: Allowed, terms: Terms) -> Service:
    """For a rule that has one."""
    kind = terms.rules[allowed.rule].service
    if kind == "packages":
        return PackagesService([(at, rule) for at, rule in enumerate(terms.rules) if isinstance(rule, PackagesRule)], terms)
    if kind == "objects":
        rules = [(at, rule) for at, rule in enumerate(terms.rules) if isinstance(rule, ObjectsRule)]
        return ObjectsService(allowed.host, rules, terms)
    return HostRequests.of(terms, allowed.rule, allowed.host, allowed.port)
