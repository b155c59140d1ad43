"""Which service answers a connection."""

from __future__ import annotations

from dayfly.egress.http.messages import Service
from dayfly.egress.services.objects.service import ObjectsService
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed
from dayfly.network import ObjectsRule

__all__ = ["service_of"]


def service_of(allowed: Allowed, terms: Terms) -> Service:
    """For a rule that has one."""
    if isinstance(terms.rules[allowed.rule], ObjectsRule):
        rules = [(index, rule) for index, rule in enumerate(terms.rules) if isinstance(rule, ObjectsRule)]
        return ObjectsService(allowed.host, rules, terms)
    raise NotImplementedError(allowed, terms)
