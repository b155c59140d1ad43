"""Which service answers a connection."""

from __future__ import annotations

from dayfly.egress.http.messages import Service
from dayfly.egress.services.requests import HostRequests
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed

__all__ = ["service_of"]


def service_of(allowed: Allowed, terms: Terms) -> Service:
    """For a rule that has one."""
    return HostRequests.of(terms, allowed.rule, allowed.host, allowed.port)
