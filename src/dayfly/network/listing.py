"""All rules of a sandbox: what a policy's ``network`` may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import TypeAdapter, ValidationInfo, WrapValidator

from dayfly.limits import AS_KEPT, Checked, Unfit
from dayfly.network.base import BaseRule
from dayfly.network.objects import ObjectsRule
from dayfly.network.packages import PackagesRule
from dayfly.network.rule import Rule
from dayfly.shared_hosts import everybody_may_register

__all__ = ["MOST_RULES", "AnyRule", "Network", "RuleList", "parse_network"]

MOST_RULES = 256
"""Of one sandbox. A list that a person can still read; beyond it, it is no list of destinations any more."""


def _one(value: object, _: object, info: ValidationInfo) -> BaseRule:
    """By what it has: whoever made a mistake is told of it in that kind's words."""
    if isinstance(value, BaseRule):
        return value
    kinds = [kind for kind in ("host", *_KINDS) if isinstance(value, Mapping) and kind in value]
    if len(kinds) > 1:
        raise Unfit(f"one rule cannot have both {kinds[0]} and {kinds[1]}", "write a rule for each")
    return _KINDS.get(next(iter(kinds), ""), _HOST).validate_python(value, context=info.context)


_HOST: TypeAdapter[BaseRule] = TypeAdapter(Rule)
_KINDS: dict[str, TypeAdapter[BaseRule]] = {"objects": TypeAdapter(ObjectsRule), "packages": TypeAdapter(PackagesRule)}

AnyRule = Annotated[Rule | ObjectsRule | PackagesRule, WrapValidator(_one)]

RuleList = tuple[AnyRule, ...]


def _network(value: object, _: object, info: ValidationInfo) -> Literal["none", "learn"] | RuleList:
    if value == "learn":
        return "learn"
    if value == "none" or value == [] or value == ():
        return "none"
    if not isinstance(value, (list, tuple)):
        how = "rules are a list, [{...}]; in TOML [[network]], in two brackets" if isinstance(value, Mapping) else None
        raise Unfit(f"neither 'none' nor a list of rules: {value!a:.80}", how or "the default is 'none'")
    if len(value) > MOST_RULES:
        raise Unfit(
            f"{len(value)} rules are too many", f"give at most {MOST_RULES}; '*.example.com' stands for many names"
        )
    rules = _RULES.validate_python(value, context=info.context)
    if info.context != AS_KEPT:
        _refuse(rules)
    return rules


Network = Annotated[Literal["none", "learn"] | RuleList, WrapValidator(_network)]
"""``"none"``; at least one rule; or ``"learn"``: nothing is reached, and what is asked for is written down."""

_RULES = TypeAdapter(RuleList)


class _Given(Checked):
    network: Network


def parse_network(value: object) -> Network:
    """What a policy's ``network`` may be, for a change of a live sandbox's. Raises ``PolicyError``."""
    return _Given.model_validate({"network": value}).network


def _refuse(rules: RuleList) -> None:
    """What no single rule can tell, and what needs the list of public suffixes. Raises ``Unfit``."""
    seen: dict[tuple[str, int], int] = {}
    for index, rule in enumerate(rules):
        if isinstance(rule, Rule):
            _refuse_twice(seen, index, rule)
            _refuse_everybody(index, rule)
        elif any(isinstance(other, type(rule)) and other.key == rule.key for other in rules[:index]):
            if isinstance(rule, PackagesRule):
                raise Unfit(
                    f"rule {index} is a second one for packages",
                    "put both into one: packages = {python = [...], node = [...]}",
                )
            raise Unfit(f"rule {index} is there twice", "keep one of the two")
        elif first := next((other for other in rules[:index] if other.counted == rule.counted), None):
            _refuse_other_caps(index, first, rule)


def _refuse_other_caps(index: int, first: BaseRule, rule: BaseRule) -> None:
    if (first.max_bytes, first.rate) != (rule.max_bytes, rule.rate):
        raise Unfit(
            f"rule {index} has other caps than one before it, with which its bytes are counted together",
            "give all rules for objects the same max_bytes and the same rate",
        )


def _refuse_twice(seen: dict[tuple[str, int], int], index: int, rule: Rule) -> None:
    for port in rule.ports:
        first = seen.setdefault((rule.host, port), index)
        if first != index:
            raise Unfit(f"rules {first} and {index} are both for {rule.host} on port {port}", "keep one of the two")


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
