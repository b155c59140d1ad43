"""What a sandbox is told of the network that it has: as a value, made from its rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dayfly.network import LEARN_PORTS, RuleList, environment_for

__all__ = ["Surroundings", "names_of"]


@dataclass(frozen=True)
class Surroundings:
    """Names that exist inside, with their ports; the PEM of one more certificate authority to believe; and variables that
    clients read. There is no secret among it: whatever runs inside can read all."""

    names: Sequence[Mapping[str, Any]]
    authority: str | None
    env: Mapping[str, str]
    learn: Sequence[int] = ()
    """Ports on which every other name exists too, only to be asked for."""

    @classmethod
    def of(cls, rules: Literal["learn"] | RuleList, authority: str | None) -> Surroundings:
        """Without rules, variables say that there is no network."""
        if rules == "learn":
            return cls([], authority, environment_for("learn"), LEARN_PORTS)
        return cls(names_of(rules), authority, environment_for(rules))

    @property
    def params(self) -> dict[str, Any]:
        """Of the operation ``network``."""
        learn = {"learn": list(self.learn)} if self.learn else {}
        return {"names": [dict(one) for one in self.names], "authority": self.authority, "env": dict(self.env), **learn}


def names_of(rules: RuleList) -> list[dict[str, Any]]:
    """Hosts and ports, and nothing else."""
    found: dict[str, set[int]] = {}
    for rule in rules:
        for host, ports in rule.places:
            found.setdefault(host, set()).update(ports)
    return [{"host": host, "ports": sorted(ports)} for host, ports in found.items()]
