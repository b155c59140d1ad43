"""A sandbox's rules, and what they say of one connection. A name is judged before anybody looks it up."""

from __future__ import annotations

from dayfly.egress.verdict import Allowed, Denied
from dayfly.hosts import BadHost, IsAddress, canonical
from dayfly.network import Rule

__all__ = ["Rules"]

_MOST_TOLD = 5  # destinations that a denial lists: an answer, not a catalogue
_SHOWN = 80  # characters of a hostile name, quoted


class Rules:
    """Frozen; ``judge`` is a few look-ups, however many rules there are."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._by_host: dict[str, dict[int, int]] = {}  # as in the rule, star and all: port: index
        for index, rule in enumerate(rules):
            ports = self._by_host.setdefault(rule.host, {})
            for port in rule.ports:
                ports.setdefault(port, index)

    def __repr__(self) -> str:
        return f"<Rules: {len(self._rules)}>"

    def judge(self, host: str, port: int) -> Allowed | Denied:
        """Whether a rule allows it, and which: one that names the host exactly before one with a star. Never raises."""
        try:
            name = canonical(host)
        except BadHost as error:
            return self._malformed(host, port, error)
        exact = self._by_host.get(name, {})
        starred = self._by_host.get("*." + name.partition(".")[2], {})
        index = exact.get(port, starred.get(port))
        if index is not None:
            return Allowed(name, port, index, self._rules[index].protocol)
        if exact or starred:
            return self._other_ports(name, port, sorted({*exact, *starred}))
        return Denied(
            name, port, "not_listed", f"No rule of this sandbox's network policy names {name}.", self._listed()
        )

    def _malformed(self, host: object, port: int, error: BadHost) -> Denied:
        shown = ascii(host if len(str(host)) <= _SHOWN else str(host)[:_SHOWN])
        if isinstance(error, IsAddress):
            return Denied(
                shown, port, "literal_address", f"{shown} {error}, and only names may be connected to.", self._listed()
            )
        return Denied(shown, port, "bad_name", f"{shown} is no host name: it {error}.", self._listed())

    def _other_ports(self, name: str, port: int, ports: list[int]) -> Denied:
        allowed = _told([str(one) for one in ports])
        reason = f"The network policy allows {name} on port {allowed}, not on {port}."
        return Denied(
            name, port, "port_not_listed", reason, f"Connect to port {allowed}, or ask for a rule with this port."
        )

    def _listed(self) -> str:
        if not self._rules:
            return "This sandbox has no network; ask for a policy that lists the host."
        return f"Use what is listed ({_told(list(self._by_host))}), or ask for a rule for this host."


def _told(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(names[:_MOST_TOLD]) + more
