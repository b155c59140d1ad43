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
    rule = terms.rules[allowed.rule]
    if isinstance(rule, PackagesRule):
        return PackagesService(rule, allowed.rule, terms)
    if isinstance(rule, ObjectsRule):
        rules = [(at, one) for at, one in enumerate(terms.rules) if isinstance(one, ObjectsRule)]
        return ObjectsService(allowed.host, rules, terms)
    return HostRequests.of(terms, allowed.rule, allowed.host, allowed.port)
