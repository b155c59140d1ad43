"""What is otherwise than in an earlier report."""

from __future__ import annotations

from dataclasses import dataclass

from dayfly.prove.proof import Proof, Row

__all__ = ["Change", "changes"]


@dataclass(frozen=True)
class Change:
    """One thing that differs. ``worse``: it was as it must be, or was not there, and is not as it must be now."""

    what: str
    before: str
    now: str
    worse: bool = False


def changes(before: Proof, now: Proof) -> tuple[Change, ...]:
    """Of the probes, the limits, what both stand on, and the policy; in this order, the worse ones of each first."""
    return (*_probes(before, now), *_limits(before, now), *_conditions(before, now), *_policy(before, now))


NONE = "none"


def _probes(before: Proof, now: Proof) -> list[Change]:
    """One that only one of the two tried is told of too: what is not tried any more is not shown any more."""
    then = {row.id: row for row in before.rows}
    today = {row.id: row for row in now.rows}
    found = []
    for name in (*today, *(name for name in then if name not in today)):
        one, other = then.get(name), today.get(name)
        said, says = _verdict(one), _verdict(other)
        if said != says:
            worse = not other.green if other is not None else one is not None and one.green
            found.append(Change(name, said, says, worse))
    return _worse_first(found)


def _verdict(row: Row | None) -> str:
    return row.verdict.value if row is not None else NONE


def _limits(before: Proof, now: Proof) -> list[Change]:
    return _named(
        {one.name: f"{one.value:g}, {one.enforcement}" for one in before.limits},
        {one.name: f"{one.value:g}, {one.enforcement}" for one in now.limits},
        "limit",
        set(),
    )


def _conditions(before: Proof, now: Proof) -> list[Change]:
    """An age that grows is no change, unless it makes another state of it."""
    return _named(
        {one.name: f"{_ageless(one.value)} ({one.state})" for one in before.conditions},
        {one.name: f"{_ageless(one.value)} ({one.state})" for one in now.conditions},
        "",
        {one.name for one in now.conditions if one.state == "red"},
    )


def _policy(before: Proof, now: Proof) -> list[Change]:
    return _named(
        {"image": before.image, "policy": before.policy_digest},
        {"image": now.image, "policy": now.policy_digest},
        "",
        set(),
    )


def _named(before: dict[str, str], now: dict[str, str], kind: str, red: set[str]) -> list[Change]:
    return _worse_first(
        [
            Change(f"{kind} {name}".strip(), before.get(name, NONE), now.get(name, NONE), name in red)
            for name in dict.fromkeys((*before, *now))
            if before.get(name) != now.get(name)
        ]
    )


def _ageless(value: str) -> str:
    return value.partition(", ")[0]


def _worse_first(found: list[Change]) -> list[Change]:
    return sorted(found, key=lambda change: not change.worse)
