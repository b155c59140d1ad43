"""The policy that would have allowed what was denied: lines of TOML, for a person to read and to paste.

Law: a host is written only in its canonical form, in quotes, so no character of a hostile name is ever shown as it came. What
no rule may say, or should not without a thought, is a comment and no rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from dayfly.errors import PolicyError
from dayfly.hosts import BadHost, canonical
from dayfly.network.advice import lint
from dayfly.network.listing import MOST_RULES, parse_network
from dayfly.network.rule import MOST_PORTS, Protocol, Rule
from dayfly.shared_hosts import everybody_may_register

__all__ = ["Asked", "suggestion"]

MOST_COMMENTS = 50
"""Lines about what is no rule; the rest is counted."""

CROWD = 5
"""Names below one parent from which on a star is worth a thought."""

_ALLOWED_BY_A_RULE = frozenset({"not_listed", "port_not_listed"})

_LEADS_SOMEWHERE = _ALLOWED_BY_A_RULE | {"private_address"}
"""What is about where a name leads, and not about what was asked for there."""

_THOUGHTS = {
    "private_address": "leads to a private address: add private = 'CIDR' if that is meant",
    "sni_mismatch": "another name at the beginning than the one that was connected to",
    "not_tls": "does not speak what its rule says: protocol = 'tcp' allows any bytes",
    "byte_cap": "has used up its max_bytes",
    "too_many_names": "too many names under a star: name the hosts themselves",
    "request_not_listed": "other methods or paths than its rule has",
    "object_not_listed": "another operation, bucket or key than its rule has",
    "package_not_listed": "a package that no rule lists, as its reason says",
    "no_secret": "its secret is not there, or not for this host",
}
"""What is said of a denial that no further rule would change."""

_INWARD = (".internal", ".local", ".localhost", ".localdomain", ".lan", ".home", ".corp", ".intranet", ".home.arpa")
_INSTANCE = frozenset(
    {"metadata", "instance-data", "metadata.azure.com", "metadata.packet.net", "metadata.platformequinix.com"}
)
"""Names under which machines of a cloud ask who they are, or that lead into whose network it is: never suggested."""

_BY_PORT: dict[int, Protocol] = {
    80: "http", 8000: "http", 8080: "http", 9200: "http", 11434: "http", 5432: "postgres",
    443: "tls", 465: "tls", 636: "tls", 993: "tls", 5671: "tls", 8443: "tls",
}  # fmt: skip
"""What a port speaks by convention, where nobody has seen it."""

_BY_BEGINNING: dict[str, Protocol] = {"tls": "tls", "http": "http", "postgres": "postgres"}


@dataclass(frozen=True)
class Asked:
    """A destination that was denied. ``port`` is ``None`` where only the name was asked for, ``began`` what it looked like."""

    host: str
    port: int | None
    code: str
    began: str | None = None
    count: int = 1


def suggestion(denied: Iterable[Asked], registries: Collection[str] = ()) -> list[str]:
    """Lines of TOML, which say so where there is nothing to allow. ``registries``: see ``lint``."""
    wanted, thoughts = _Wanted(), Counter[str]()
    for one in denied:
        _sort(one, wanted, thoughts)
    rules, refused = wanted.rules()
    lines = [line for rule in rules for line in _written(rule, wanted, registries)]
    if not rules:
        lines = ["# Nothing was denied that a rule would allow."]
    comments = [*refused, *wanted.names_alone(), *_stars(rules), *_counted(thoughts)]
    more = [f"# and {len(comments) - MOST_COMMENTS} more"] if len(comments) > MOST_COMMENTS else []
    return [*lines, *(f"# {one}" for one in comments[:MOST_COMMENTS]), *more]


class _Wanted:
    """What rules are to be made for: by host and protocol, with the ports, and whether anybody has seen how they speak."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, Protocol], dict[int, bool]] = {}
        self._alone: dict[str, None] = {}

    def add(self, host: str, port: int | None, began: str | None) -> None:
        if not port:
            self._alone[host] = None
            return
        ports = self._ports.setdefault((host, _protocol(port, began)), {})
        ports[port] = ports.get(port, False) or began is not None

    def rules(self) -> tuple[list[Rule], list[str]]:
        """And why there are no more."""
        made, refused = list[Rule](), list[str]()
        for (host, protocol), ports in _one_protocol_each(self._ports):
            try:
                made.append(_rule(host, protocol, ports[:MOST_PORTS]))
            except PolicyError as error:
                refused.append(f"{host!a}: {_plain(error.message)}")
                continue
            if len(ports) > MOST_PORTS:
                refused.append(f"{host!a}: {len(ports) - MOST_PORTS} ports more than a rule can have")
        if len(made) > MOST_RULES:
            refused.append(f"{len(made) - MOST_RULES} rules more than a policy can have")
        return made[:MOST_RULES], refused

    def seen(self, rule: Rule) -> bool:
        ports = self._ports.get((rule.host, rule.protocol), {})
        return all(ports.get(port, False) for port in rule.ports)

    def names_alone(self) -> list[str]:
        connected = {host for host, _ in self._ports}
        return [
            f'"{host}" was asked for by name, and no port is known' for host in self._alone if host not in connected
        ]


def _one_protocol_each(
    wanted: dict[tuple[str, Protocol], dict[int, bool]],
) -> Iterator[tuple[tuple[str, Protocol], list[int]]]:
    """No port of a host twice: one that speaks in two ways is TLS, then HTTP, then anything."""
    taken: set[tuple[str, int]] = set()
    order = ("tls", "postgres", "http", "tcp")
    for (host, protocol), ports in sorted(wanted.items(), key=lambda one: order.index(one[0][1])):
        own = [port for port in sorted(ports) if (host, port) not in taken]
        taken.update((host, port) for port in own)
        if own:
            yield (host, protocol), own


def _rule(host: str, protocol: Protocol, ports: list[int]) -> Rule:
    """Raises ``PolicyError``, also for what only a whole policy is refused for."""
    rule = Rule(host=host, ports=tuple(ports), protocol=protocol)
    parse_network([rule])
    return rule


def _sort(one: Asked, wanted: _Wanted, thoughts: Counter[str]) -> None:
    try:
        host = canonical(one.host)
    except BadHost:
        thoughts["no names of hosts, but addresses or worse: never allowed"] += one.count
        return
    if one.code in _LEADS_SOMEWHERE and _inward(host):
        thoughts[f'"{host}" leads to this machine, its cloud or its network: not suggested'] += one.count
    elif one.code in _ALLOWED_BY_A_RULE:
        wanted.add(host, one.port, one.began)
    else:
        thoughts[f'"{host}"{_on(one.port)}: {_THOUGHTS.get(one.code, "not changed by a rule")}'] += one.count


def _inward(host: str) -> bool:
    return host in _INSTANCE or host.endswith(_INWARD) or host == "localhost" or "." not in host


def _on(port: int | None) -> str:
    return f" on port {port}" if port else ""


def _protocol(port: int, began: str | None) -> Protocol:
    return _BY_PORT.get(port, "tcp") if began is None else _BY_BEGINNING.get(began, "tcp")


def _written(rule: Rule, wanted: _Wanted, registries: Collection[str]) -> Iterator[str]:
    for caution in lint((rule,), registries=registries):
        yield f"# {_plain(caution.reason)} {_plain(caution.remedy)}"
    yield "[[network]]"
    yield f'host = "{rule.host}"'
    yield f"ports = {list(rule.ports)}"
    yield f'protocol = "{rule.protocol}"' + ("" if wanted.seen(rule) else "  # by its port: nobody has seen it")
    yield ""


def _stars(rules: list[Rule]) -> Iterator[str]:
    """What a star would stand for. It is never a rule here: it is for every name there, and names carry data."""
    parents = Counter(
        (rule.host.partition(".")[2], rule.ports, rule.protocol) for rule in rules if not rule.host.startswith("*.")
    )
    for (parent, ports, protocol), count in parents.items():
        if count >= CROWD and "." in parent and everybody_may_register(parent) is None:
            yield (
                f'{count} of these are below {parent}: host = "*.{parent}", ports = {list(ports)}, protocol = "{protocol}"'
                " would stand for all of them, and for any other name there"
            )


def _counted(thoughts: Counter[str]) -> list[str]:
    return [f"{what} ({count} times)" if count > 1 else what for what, count in thoughts.items()]


def _plain(text: str) -> str:
    """One line of a comment."""
    return " ".join(ascii(text)[1:-1].split())
