"""Where a sandbox may connect to: rules, one for each named destination."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationInfo, WrapValidator, field_validator, model_validator

from dayfly.hosts import LONGEST_NAME, BadHost, IsAddress, canonical
from dayfly.limits import AS_KEPT, GIB, KIB, ByteSize, Checked, Unfit
from dayfly.shared_hosts import everybody_may_register, shared_by_many

__all__ = [
    "MOST_PORTS",
    "MOST_RULES",
    "PRIVATE_RANGES",
    "Caution",
    "Network",
    "Protocol",
    "Rule",
    "host_pattern",
    "lint",
    "parse_network",
    "private_range",
    "within",
]

MOST_RULES = 256
"""Of one sandbox. A list that a person can still read; beyond it, it is no list of destinations any more."""

MOST_PORTS = 64
"""Of one rule. Inside, each is a listener of its own for every name."""

Protocol = Literal["tls", "http", "tcp", "postgres"]

PORTS: dict[str, tuple[int, ...]] = {"tls": (443,), "http": (80,), "postgres": (5432,)}
"""What a rule that names no ports means, by its protocol."""

PRIVATE_RANGES = tuple(
    ipaddress.ip_network(one)
    for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1/128")
)
"""Inside of which ``private`` may lie. Link-local, multicast and the like have no services that a rule could mean."""


class Rule(Checked):
    """One destination. Raises ``PolicyError``.

    A name under more than one rule of the same port is judged by the rule that names it exactly, before a wildcard.
    """

    host: str
    """A name, or ``*.`` and a name: exactly one label more, and not the name itself."""

    ports: tuple[int, ...] = ()
    """Without it the protocol's own: tls 443, http 80, postgres 5432."""

    protocol: Protocol = "tls"
    """How the port speaks. Without it tls, or http where port 80 is the only one. ``tcp`` is not looked into."""

    private: IPv4Network | IPv6Network | None = None
    """Private addresses that the name may lead to: exactly these. The floor of everything else stays."""

    max_bytes: ByteSize | None = Field(None, ge=1 * KIB, le=1024 * GIB)
    """Both directions together, for one sandbox's life. None: no cap."""

    rate: ByteSize | None = Field(None, ge=1 * KIB, le=1024 * GIB)
    """Bytes a second, both directions together. None: no cap."""

    @property
    def key(self) -> tuple[str, tuple[int, ...], str]:
        """Host, ports and protocol: what it is a rule for. What was used is counted under it, also when its caps change."""
        return self.host, self.ports, self.protocol

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        ports, protocol = data.get("ports"), data.get("protocol")
        if protocol is None:
            protocol = _spoken_on(ports)
        if ports is None:
            if protocol == "tcp":
                raise Unfit("tcp has no port of its own", "give ports, such as ports = [5672]")
            ports = PORTS.get(str(protocol), (443,))
        return {**data, "ports": ports, "protocol": protocol}

    @field_validator("host")
    @classmethod
    def _one_spelling(cls, host: str) -> str:
        return host_pattern(host)

    @field_validator("ports", mode="before")
    @classmethod
    def _some_ports(cls, ports: object) -> object:
        if not isinstance(ports, (list, tuple)) or not 0 < len(ports) <= MOST_PORTS:
            raise Unfit(f"not a list of 1 to {MOST_PORTS} ports: {ports!a:.80}", _HOW_PORTS)
        for one in ports:
            if type(one) is not int or not 0 < one < 65536:
                raise Unfit(f"not a port: {one!a:.80}", _HOW_PORTS)
            if ports.count(one) > 1:
                raise Unfit(f"port {one} is listed twice", "list it once")
        return ports

    @field_validator("private", mode="before")
    @classmethod
    def _inside_a_private_range(cls, value: object) -> object:
        return None if value is None else private_range(value)

    @model_validator(mode="after")
    def _findable(self) -> Rule:
        if self.private is not None or "." in self.host.removeprefix("*."):
            return self
        if self.host.startswith("*."):
            raise Unfit(f"{self.host!r} stands for everything below a top-level name", "name the hosts that are meant")
        raise Unfit(
            f"{self.host!r} is a single label, which means something else on every network",
            "write the whole name, such as 'api.example.com'; for a host of a private network add private = 'CIDR'",
        )


def host_pattern(host: str) -> str:
    """A rule's host in its one spelling. Raises ``Unfit``."""
    star = "*." if host.startswith("*.") else ""
    base = host[len(star) :]
    if "*" in base:
        raise Unfit(f"{host!a:.80} has a star where none may be", _ONE_STAR)
    try:
        name = canonical(base)
    except BadHost as error:
        raise Unfit(f"{host!a:.80} {error}", _remedy_for(base, error)) from None
    if star and len(name) > LONGEST_NAME - 2:
        raise Unfit(f"{host!a:.80} leaves no room for another label", "name the hosts themselves")
    return star + name


def private_range(value: object) -> IPv4Network | IPv6Network:
    """A range of private addresses, from text. Raises ``Unfit``."""
    try:
        network = ipaddress.ip_network(value if isinstance(value, (IPv4Network, IPv6Network)) else str(value))
    except ValueError:
        raise Unfit(
            f"not a network: {value!a:.80}", "write it as '10.1.2.0/24', with no bits behind the 24th"
        ) from None
    if not any(within(network, one) for one in PRIVATE_RANGES):
        ranges = ", ".join(str(one) for one in PRIVATE_RANGES)
        raise Unfit(
            f"{network} is not inside a private range",
            f"give a part of one of {ranges}; public addresses need no private",
        )
    return network


_HOW_PORTS = f"write ports = [443]: 1 to {MOST_PORTS} whole numbers from 1 to 65535"
_ONE_STAR = "a star stands for exactly one label, in the first place: '*.example.com'; list every name that is meant"
_NAME_ALONE = "write the name alone, such as 'api.example.com'"


def _remedy_for(host: str, error: BadHost) -> str:
    if isinstance(error, IsAddress):
        return "rules are for names: give the address a name in DNS (and private = 'CIDR' if it is a private one)"
    if ":" in host and "/" not in host:
        return f"{_NAME_ALONE}, and ports = [...]"
    return _NAME_ALONE


def within(network: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    """Whether ``network`` is a part of ``other``."""
    if isinstance(network, IPv4Network):
        return isinstance(other, IPv4Network) and network.subnet_of(other)
    return isinstance(other, IPv6Network) and network.subnet_of(other)


def _spoken_on(ports: object) -> str:
    """The protocol of a rule that names none."""
    if not isinstance(ports, (list, tuple)) or 80 not in ports:
        return "tls"
    if len(ports) > 1:
        raise Unfit("port 80 speaks http and the others tls", "write a rule for each, or say which protocol")
    return "http"


# --- all rules of a sandbox -----------------------------------------------------------------------------------------


def _network(value: object, _: object, info: ValidationInfo) -> Literal["none"] | tuple[Rule, ...]:
    if value == "none" or value == [] or value == ():
        return "none"
    if not isinstance(value, (list, tuple)):
        raise Unfit(f"neither 'none' nor a list of rules: {value!a:.80}", "the default is 'none'")
    if len(value) > MOST_RULES:
        raise Unfit(
            f"{len(value)} rules are too many", f"give at most {MOST_RULES}; '*.example.com' stands for many names"
        )
    rules = _RULES.validate_python(value, context=info.context)
    if info.context != AS_KEPT:
        _refuse(rules)
    return rules


Network = Annotated[Literal["none"] | tuple[Rule, ...], WrapValidator(_network)]
"""``"none"``, or at least one rule."""

_RULES = TypeAdapter(tuple[Rule, ...])


class _Given(Checked):
    network: Network


def parse_network(value: object) -> Literal["none"] | tuple[Rule, ...]:
    """What a policy's ``network`` may be, for a change of a live sandbox's. Raises ``PolicyError``."""
    return _Given.model_validate({"network": value}).network


def _refuse(rules: tuple[Rule, ...]) -> None:
    """What no single rule can tell, and what needs the list of public suffixes. Raises ``Unfit``."""
    seen: dict[tuple[str, int], int] = {}
    for index, rule in enumerate(rules):
        for port in rule.ports:
            first = seen.setdefault((rule.host, port), index)
            if first != index:
                raise Unfit(f"rules {first} and {index} are both for {rule.host} on port {port}", "keep one of the two")
        _refuse_everybody(index, rule)


def _refuse_everybody(index: int, rule: Rule) -> None:
    base = rule.host.removeprefix("*.")
    if base != rule.host:
        if everybody_may_register(base):
            raise Unfit(
                f"rule {index}: anybody may have a name below {base!r}", "name the hosts that are meant, one by one"
            )
    elif everybody_may_register(base) == "registry":
        raise Unfit(
            f"rule {index}: {base!r} is a public suffix, not a host",
            f"write the whole name, such as 'api.example.{base}'",
        )


# --- advice ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Caution:
    """What a reader of the rules should know: they are valid. ``rule`` is an index; ``reason`` and ``remedy`` a sentence each."""

    rule: int
    host: str
    reason: str
    remedy: str


def lint(rules: Literal["none"] | tuple[Rule, ...], *, registries: Collection[str] = ()) -> tuple[Caution, ...]:
    """Cautions about rules that ``Policy`` has accepted, in their order. ``registries``: names of hosts that take packages."""
    if rules == "none":
        return ()
    by_host: dict[tuple[str, int], int] = {
        (rule.host, port): at for at, rule in enumerate(rules) for port in rule.ports
    }
    return tuple(
        caution
        for index, rule in enumerate(rules)
        for caution in (*_shared(index, rule, registries), *_unseen(index, rule), *_overlapping(index, rule, by_host))
    )


def _shared(index: int, rule: Rule, registries: Collection[str]) -> Iterator[Caution]:
    base = rule.host.removeprefix("*.")
    found = None if rule.private else _registry(rule.host, registries) or shared_by_many(base)
    if found is None:
        return
    kind, suffix = found
    reason = f"{suffix} is {kind}: whoever can put something there can receive from here."
    if base != suffix:
        reason += (
            " Only the name at the beginning of TLS is checked, and the same servers answer to other customers' names."
        )
    yield Caution(
        index, rule.host, reason, "Leave it out, or give the code nothing that others must not have; set max_bytes."
    )


def _registry(pattern: str, registries: Collection[str]) -> tuple[str, str] | None:
    named = [name for name in sorted(registries) if pattern in (name, "*." + name.partition(".")[2])]
    return ("a registry of packages that this machine is set to", named[0]) if named else None


def _unseen(index: int, rule: Rule) -> Iterator[Caution]:
    if 443 in rule.ports and rule.protocol != "tls":
        reason = f"Port 443 speaks TLS nearly everywhere; with protocol {rule.protocol} the name in its handshake is not checked."
        yield Caution(index, rule.host, reason, "Leave protocol out, or write tls.")


def _overlapping(index: int, rule: Rule, by_host: Mapping[tuple[str, int], int]) -> Iterator[Caution]:
    """An exact rule beside a wildcard that has it too."""
    if rule.host.startswith("*."):
        return
    star = "*." + rule.host.partition(".")[2]
    for other in sorted({by_host[star, port] for port in rule.ports if (star, port) in by_host}):
        reason = f"Rule {other} ({star}) names {rule.host} too; this one is what counts, with its own caps."
        yield Caution(index, rule.host, reason, "Nothing, if that is meant; otherwise keep one of the two.")
