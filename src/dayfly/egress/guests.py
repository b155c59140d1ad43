"""What the gateway knows of one sandbox: its rules, what it has used of them, and its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from dayfly.egress.labels import MOST, PER_MINUTE, Labels
from dayfly.egress.meter import Meter
from dayfly.egress.resolving import Turns
from dayfly.egress.rules import Rules
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Allowed, Denied
from dayfly.network import BaseRule, RuleList, starred

if TYPE_CHECKING:
    from dayfly.egress.certificates import Certificates

__all__ = ["MOST_CONNECTIONS", "Guest", "byte_cap"]

MOST_CONNECTIONS = 64
"""Of one sandbox at once, those that are being made included. A browser makes six to a host."""

MOST_METERS = 4096
"""Rules whose use is remembered, so that none is forgotten by being taken away and given again. Far more than a policy has."""

Later = Callable[[float, Callable[[], None]], object]


class Guest:
    def __init__(self, later: Later | None = None) -> None:
        self.turns = Turns()
        self.connections: set[int] = set()
        self.version = 0
        self.terms = Terms()
        self._rules: RuleList = ()
        self._judge = Rules(())
        self._meters: dict[tuple[object, ...], Meter] = {}
        self._labels = Labels()
        self._certificates: Certificates | None = None
        self._later = later or asyncio.get_running_loop().call_later

    def admit(self, terms: Terms) -> None:
        """From now on. Whether its authority is one is seen when it is needed."""
        if terms.authority != self.terms.authority:
            self._certificates = None
        self.terms, rules = terms, terms.rules
        self._rules, self._judge = rules, Rules(rules)
        self.version += 1
        keys = {rule.counted for rule in rules}
        for spare in [key for key in self._meters if key not in keys][: max(0, len(self._meters) - MOST_METERS)]:
            del self._meters[spare]
        for rule in rules:
            self._meters.setdefault(rule.counted, Meter(self._later)).allow(rule.max_bytes, rule.rate)

    def judge(self, host: str, port: int) -> Allowed | Denied:
        """Also whether anything is left of what the rule allows."""
        verdict = self._judge.judge(host, port)
        if isinstance(verdict, Denied):
            return verdict
        if self._starred(verdict) and not self._labels.admit(verdict.host):
            return _too_many(verdict)
        return byte_cap(verdict) if self.meter(verdict).spent else verdict

    def _starred(self, allowed: Allowed) -> bool:
        return all(host.startswith("*.") for host, _ in self.rule(allowed).places)

    def rule(self, allowed: Allowed) -> BaseRule:
        return self._rules[allowed.rule]

    @property
    def certificates(self) -> Certificates:
        """Of the sandbox's authority. Raises ``ValueError`` where it has none."""
        if self._certificates is None:
            if self.terms.authority is None:
                raise ValueError("this sandbox has no authority")
            from dayfly.egress.certificates import Certificates

            self._certificates = Certificates(self.terms.authority)
        return self._certificates

    def basis(self, allowed: Allowed) -> tuple[object, ...]:
        """All that the service of a rule goes by: where this is equal, nothing has changed for a connection. Objects and packages
        are served by all rules of their kind."""
        rule, terms = self.rule(allowed), self.terms
        of_it = [
            (at, one)
            for at, one in enumerate(terms.rules)
            if one.service == rule.service and (rule.service != "requests" or _covers(one, allowed))
        ]
        secrets = [(name, terms.secrets.get(name)) for _, one in of_it for name in sorted(one.secrets)]
        uncapped = [(at, one.model_copy(update={"max_bytes": None, "rate": None})) for at, one in of_it]
        return uncapped, secrets, terms.authority, terms.indexes

    def meter(self, allowed: Allowed) -> Meter:
        return self._meters[self.rule(allowed).counted]


def _covers(rule: BaseRule, allowed: Allowed) -> bool:
    names = (allowed.host, starred(allowed.host))
    return any(host in names and allowed.port in ports for host, ports in rule.places)


def _too_many(allowed: Allowed) -> Denied:
    reason = (
        f"This sandbox has asked for too many new names under a star (at most {PER_MINUTE} a minute, {MOST} in all)."
    )
    return Denied(
        allowed.host,
        allowed.port,
        "too_many_names",
        reason,
        "Wait a minute, or ask for rules with the names themselves.",
    )


def byte_cap(allowed: Allowed) -> Denied:
    reason = f"This sandbox has used up the bytes that its rule for {allowed.host} allows (max_bytes)."
    return Denied(allowed.host, allowed.port, "byte_cap", reason, "Transfer less, or ask for a larger max_bytes.")
