"""A sandbox's rules, and what they say of one connection. A name is judged before anybody looks it up."""

from __future__ import annotations

from dayfly.egress.verdict import Allowed, Denied, port_or_zero
from dayfly.hosts import BadHost, IsAddress, canonical
from dayfly.network import RuleList, starred

__all__ = ["Rules"]

_MOST_TOLD = 5  # destinations that a denial lists: an answer, not a catalogue
_SHOWN = 80  # characters of a hostile name, quoted


class Rules:
    """Frozen; ``judge`` is a few look-ups, however many rules there are."""

    def __init__(self, rules: RuleList) -> None:
        self._rules = rules
        self._by_host: dict[str, dict[int, int]] = {}  # as in the rule, star and all: port: index
        for index, rule in enumerate(rules):
            for host, ports in rule.places:
                by_port = self._by_host.setdefault(host, {})
                for port in ports:
                    by_port.setdefault(port, index)

    def __repr__(self) -> str:
        return f"<Rules: {len(self._rules)}>"

    def judge(self, host: str, port: int) -> Allowed | Denied:
        """Whether a rule allows it, and which: one that names the host exactly before one with a star.

        Never raises, whatever it is given. What is no port is 0 in the answer.
        """
        port = port_or_zero(port)
        try:
            name = canonical(host)
        except BadHost as error:
            return self._malformed(host, port, error)
        exact = self._by_host.get(name, {})
        wild = self._by_host.get(starred(name), {})
        index = exact.get(port, wild.get(port))
        if index is not None:
            return Allowed(name, port, index, self._rules[index].spoken)
        if exact or wild:
            return self._other_ports(name, port, sorted({*exact, *wild}))
        return Denied(
            name, port, "not_listed", f"No rule of this sandbox's network policy names {name}.", self._listed()
        )

    def _malformed(self, host: object, port: int, error: BadHost) -> Denied:
        shown = _quoted(host)
        if isinstance(error, IsAddress):
            return Denied(
                shown, port, "literal_address", f"{shown} {error}, and only names may be connected to.", self._listed()
            )
        return Denied(shown, port, "bad_name", f"{shown} is no host name: it {error}.", self._listed())

    def _other_ports(self, name: str, port: int, ports: list[int]) -> Denied:
        allowed = _told([str(one) for one in ports])
        reason = f"The network policy allows {name} on port {allowed}, not on {port or 'what is no port'}."
        return Denied(
            name, port, "port_not_listed", reason, f"Connect to port {allowed}, or ask for a rule with this port."
        )

    def _listed(self) -> str:
        if not self._rules:
            return "This sandbox has no network; ask for a policy that lists the host."
        return f"Use what is listed ({_told(list(self._by_host))}), or ask for a rule for this host."


def _quoted(host: object) -> str:
    if not isinstance(host, str):
        return "that"
    text = ascii(host[:_SHOWN])
    return text if len(host) <= _SHOWN and len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}...'"


def _told(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return ", ".join(names[:_MOST_TOLD]) + more
