"""What the rules say of what is asked for: pure. The first rule that allows it is the one that is used."""

from __future__ import annotations

from collections.abc import Sequence

from dayfly.egress.services.objects.asking import Asked
from dayfly.egress.services.objects.keys import BadSpelling, begins_with
from dayfly.network.objects import Access, Objects, ObjectsRule

__all__ = ["Numbered", "ObjectsRules"]

Numbered = tuple[int, ObjectsRule]
"""A rule with its index in the policy."""

_MOST_TOLD = 5


class ObjectsRules:
    def __init__(self, rules: Sequence[Numbered]) -> None:
        self._rules = tuple(rules)

    def allowing(self, asked: Asked, keys: Sequence[str]) -> Numbered | None:
        """For an operation on ``keys``, or on what begins with one. One rule must allow all of it."""
        access = asked.operation.access
        for index, rule in self._rules:
            readable = asked.source is None or self._readable(*asked.source, rule.objects.endpoint)
            if access is not None and readable and _allows(rule.objects, access, asked.bucket, keys):
                return index, rule
        return None

    def of_bucket(self, bucket: str) -> Numbered | None:
        """The first that names it, whatever it allows there."""
        return next((one for one in self._rules if one[1].objects.bucket == bucket), None)

    def directory(self, bucket: str, key: str) -> Numbered | None:
        """The rule of whose prefix ``key`` is the name without its slash. Clients for which a bucket is a file system ask whether that
        is an object before they list it; that it is none is said here, whatever the store has there."""
        return next(
            (one for one in self._rules if (one[1].objects.bucket, one[1].objects.prefix) == (bucket, f"{key}/")), None
        )

    @property
    def buckets(self) -> tuple[str, ...]:
        return tuple(rule.objects.bucket for _, rule in self._rules)

    @property
    def first(self) -> Numbered:
        return self._rules[0]

    @property
    def told(self) -> str:
        """For a person: what there is."""
        ones = [f"{', '.join(rule.objects.access)} in {rule.objects.place}" for _, rule in self._rules]
        more = f"; and {len(ones) - _MOST_TOLD} more" if len(ones) > _MOST_TOLD else ""
        return "; ".join(ones[:_MOST_TOLD]) + more

    def _readable(self, bucket: str, key: str, endpoint: str) -> bool:
        """In the store that is written to: one of that name elsewhere is another bucket."""
        return any(
            rule.objects.endpoint == endpoint and _allows(rule.objects, "read", bucket, (key,))
            for _, rule in self._rules
        )


def _allows(one: Objects, access: Access, bucket: str, keys: Sequence[str]) -> bool:
    if access not in one.access or one.bucket != bucket:
        return False
    try:
        return all(begins_with(key, one.prefix) for key in keys)
    except BadSpelling:
        return False
