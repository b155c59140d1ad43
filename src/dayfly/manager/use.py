"""What a sandbox has used of its rules, over gateways that come and go."""

from __future__ import annotations

from collections import Counter

from dayfly.egress.client import Closed
from dayfly.limits import KIB
from dayfly.network import AnyRule, BaseRule, RuleList, starred

__all__ = ["Use"]


class Use:
    """Bytes that a sandbox has moved under rules with a cap. A gateway counts for itself, from when it got to know the sandbox."""

    def __init__(self) -> None:
        self._before: Counter[tuple[object, ...]] = Counter()  # counted by nobody who is still there
        self._now: Counter[tuple[object, ...]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._before or self._now)

    def begin(self) -> None:
        """From now on somebody counts who knows nothing."""
        self._before += self._now
        self._now.clear()

    def add(self, rules: RuleList, closed: Closed) -> None:
        rule = _rule_of(rules, closed)
        if rule is not None and rule.max_bytes is not None:
            self._now[rule.counted] += closed.sent + closed.received

    def left(self, rules: RuleList) -> RuleList:
        """With the caps that are left for who counts now. None is less than a rule can have."""
        return tuple(self._left(rule) for rule in rules)

    def _left(self, rule: AnyRule) -> AnyRule:
        used = self._before[rule.counted]
        if rule.max_bytes is None or not used:
            return rule
        return rule.model_copy(update={"max_bytes": max(KIB, rule.max_bytes - used)})


def _rule_of(rules: RuleList, closed: Closed) -> BaseRule | None:
    """Which one counts it now: a connection may be older than the rules."""
    for wanted in (closed.host, starred(closed.host)):
        for rule in rules:
            if any(host == wanted and closed.port in ports for host, ports in rule.places):
                return rule
    return None
