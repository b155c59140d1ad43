"""What the journal is told of a sandbox's life, beside what runs in it."""

from __future__ import annotations

import json

from dayfly.manager.paused import Paused
from dayfly.manager.recorded import RecordedLife, destinations, names_of
from dayfly.manager.registry import Registration
from dayfly.policy import Policy

__all__ = ["keeping", "opening", "renewal"]

MAX_RULES = 32 * 1024
"""Bytes of a network's rules as they are; of more there are the first destinations, and how many they are."""


def opening(made: Registration) -> dict[str, object]:
    """What the journal keeps of a new sandbox. The environment by its names only: values may be secrets."""
    policy = made.policy
    return {
        "conversation": made.conversation,
        "template": made.template,
        "policy": _described(policy),
        # the tenant reads this: where mounts come from is the operator's
        "mounts": [mount.target for mount in policy.mounts],
        "environment": names_of(made.env),
        "limits": {report.name: report.enforcement.value for report in made.limits},
    }


def _described(policy: Policy) -> dict[str, object]:
    """All of it that an entry has room for."""
    found = policy.model_dump(mode="json", exclude={"mounts"})
    if not isinstance(policy.network, str) and len(json.dumps(found["network"])) > MAX_RULES:
        found["network"] = destinations(policy.network)
    return found


def keeping(paused: Paused) -> dict[str, object]:
    """What a pause has written: bytes, and until when, in seconds since 1970. And the CPU seconds of its life up to then."""
    return {"bytes": paused.sealed.size, "expires": paused.expires, "cpu_seconds": round(paused.cpu_seconds, 6)}


def renewal(life: RecordedLife) -> dict[str, object]:
    """What the agent says was drawn anew after its restore, and what goes on as it was."""
    found = life.renewed
    return {"renewed": list(found.renewed), "kept": list(found.kept)} if found is not None else {}
