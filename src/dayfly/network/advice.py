"""What a reader of rules should know: they are valid."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from dayfly.network.base import starred
from dayfly.network.listing import Network
from dayfly.network.rule import Rule
from dayfly.shared_hosts import shared_by_many

__all__ = ["Caution", "lint"]


@dataclass(frozen=True)
class Caution:
    """What a reader of the rules should know: they are valid. ``rule`` is an index; ``reason`` and ``remedy`` a sentence each."""

    rule: int
    host: str
    reason: str
    remedy: str


def lint(rules: Network, *, registries: Collection[str] = ()) -> tuple[Caution, ...]:
    """Cautions about rules that ``Policy`` has accepted, in their order. ``registries``: names of hosts that take packages."""
    if isinstance(rules, str):
        return ()
    by_host: dict[tuple[str, int], int] = {
        (rule.host, port): at for at, rule in enumerate(rules) if isinstance(rule, Rule) for port in rule.ports
    }
    return tuple(
        caution
        for index, rule in enumerate(rules)
        if isinstance(rule, Rule)
        for caution in (
            *_shared(index, rule, registries),
            *_unseen(index, rule),
            *_itself(index, rule),
            *_starred(index, rule),
            *_overlapping(index, rule, by_host),
        )
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
    named = [name for name in sorted(registries) if pattern in (name, starred(name))]
    return ("a registry of packages that this machine is set to", named[0]) if named else None


def _unseen(index: int, rule: Rule) -> Iterator[Caution]:
    if 443 in rule.ports and rule.protocol != "tls":
        reason = f"Port 443 speaks TLS nearly everywhere; with protocol {rule.protocol} the name in its handshake is not checked."
        yield Caution(index, rule.host, reason, "Leave protocol out, or write tls.")


def _itself(index: int, rule: Rule) -> Iterator[Caution]:
    if rule.host == "localhost" or rule.host.endswith(".localhost"):
        reason = "Inside, that name is the sandbox itself, so that nothing is reached by this rule."
        yield Caution(
            index, rule.host, reason, "Give another name of this machine, such as the one that hostname prints."
        )


def _starred(index: int, rule: Rule) -> Iterator[Caution]:
    for path in rule.paths or ():
        if "*" in path.removesuffix("/*"):
            reason = f"In {path} a star is a character like any other: only '/*' at the end of a path stands for more."
            yield Caution(index, rule.host, reason, "List the paths that are meant, or all below one of them.")


def _overlapping(index: int, rule: Rule, by_host: Mapping[tuple[str, int], int]) -> Iterator[Caution]:
    """An exact rule beside a wildcard that has it too."""
    if rule.host.startswith("*."):
        return
    star = starred(rule.host)
    for other in sorted({by_host[star, port] for port in rule.ports if (star, port) in by_host}):
        reason = f"Rule {other} ({star}) names {rule.host} too; this one is what counts, with its own caps."
        yield Caution(index, rule.host, reason, "Nothing, if that is meant; otherwise keep one of the two.")
