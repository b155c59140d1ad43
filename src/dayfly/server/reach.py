"""Where policies over HTTP may lead to: nowhere, unless the operator says so."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from pydantic import field_validator

from dayfly.errors import PolicyError
from dayfly.limits import Checked
from dayfly.network import BaseRule, Network, host_pattern, private_range, secret_name, starred, within
from dayfly.policy import Policy

__all__ = ["Reach"]

ANY = "*"


class Reach(Checked):
    """What rules over HTTP may name. Templates are the operator's, and may have any. Raises ``PolicyError``."""

    names: frozenset[str] = frozenset()
    """Hosts as in a rule: ``api.example.com``; ``*.example.com`` for exactly one label more, also as a rule of that very
    spelling. ``*`` is any name at public addresses."""

    private: frozenset[IPv4Network | IPv6Network] = frozenset()
    """Of which a rule's own ``private`` may be a part. Its name must be listed too, since whoever may choose the name
    chooses the address: ``*`` is not enough."""

    secrets: frozenset[str] = frozenset()
    """Names of secrets that such rules may use. Each goes to the hosts that it was stored for, and nowhere else."""

    packages: bool = False
    """Whether such rules may name packages of this machine's indexes."""

    @field_validator("names")
    @classmethod
    def _one_spelling(cls, names: frozenset[str]) -> frozenset[str]:
        return frozenset(name if name == ANY else host_pattern(name) for name in names)

    @field_validator("secrets")
    @classmethod
    def _names_of_secrets(cls, names: frozenset[str]) -> frozenset[str]:
        return frozenset(secret_name(name) for name in names)

    @field_validator("private", mode="before")
    @classmethod
    def _private_ranges(cls, ranges: object) -> object:
        return [private_range(one) for one in ranges] if isinstance(ranges, (list, tuple, set, frozenset)) else ranges

    def check(self, rules: Network) -> None:
        """Raises ``PolicyError`` for what goes beyond it. To learn is to reach nothing, which everybody may."""
        for index, rule in enumerate(() if isinstance(rules, str) else rules):
            self._check(f"network[{index}]", rule)

    def check_policy(self, policy: Policy) -> None:
        """The same of all that a policy leads to: what is copied in and out too. Raises ``PolicyError``."""
        for place, rule in policy.destinations:
            self._check(place, rule)

    def _check(self, place: str, rule: BaseRule) -> None:
        self._check_destination(place, rule)
        if not rule.secrets <= self.secrets:
            names = ", ".join(sorted(rule.secrets - self.secrets))
            raise PolicyError(f"{place}: over HTTP no rule may use the secret {names} here", remedy=_ASK_FOR_SECRET)

    def _check_destination(self, place: str, rule: BaseRule) -> None:
        host = rule.leads_to
        if host is None:
            if not self.packages:
                raise PolicyError(f"{place}: over HTTP no rule may have packages here", remedy=_ASK_FOR_PACKAGES)
        elif not self._names(host, rule):
            raise PolicyError(f"{place}: {self._refusal(host)}", remedy=_ASK)
        if rule.private is not None and not any(within(rule.private, one) for one in self.private):
            message = f"{place}: over HTTP no rule may have private = {str(rule.private)!r} here"
            raise PolicyError(message, remedy=_ASK_FOR_RANGE)

    def _names(self, host: str, rule: BaseRule) -> bool:
        return not self.names.isdisjoint({host, starred(host)}) or (ANY in self.names and rule.private is None)

    def _refusal(self, host: str) -> str:
        if not self.names:
            return "over HTTP no policy has a network here"
        if ANY in self.names:
            return f"{host!a} with private is not a name that a policy over HTTP may have here"
        return f"{host!a} is not a name that a policy over HTTP may have here"


def _ask(for_what: str) -> str:
    return f"the server's operator can {for_what} in its configuration), or make a template with this rule"


_ASK = _ask("list the name ([network] names")
_ASK_FOR_RANGE = _ask("list the range ([network] private")
_ASK_FOR_SECRET = _ask("list it ([network] secrets")
_ASK_FOR_PACKAGES = _ask("allow them ([network] packages")
