"""What is not installed here: nobody can use it, so there is nothing of it to prove. A report says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dayfly.prove import Condition, Probe

__all__ = ["Absent", "absent", "conditions_of", "without"]

OF_OBJECTS = (
    "allow-list.objects.",
    "supplied.read",
    "supplied.write",
    "supplied.list",
    "supplied.copy",
    "credential.injected.store-",
)
"""Beginnings of the ids of probes that are about an object store."""


@dataclass(frozen=True)
class Absent:
    """``what`` cannot be used without ``extra``; ``about`` says which probes are about it."""

    what: str
    extra: str
    about: Callable[[Probe], bool]


def absent() -> tuple[Absent, ...]:
    from dayfly.cli.serve import LIBRARIES
    from dayfly.prove import Place

    found = []
    if not all(map(_is_there, LIBRARIES)):
        found.append(Absent("a server", "server", lambda probe: probe.place is Place.SERVED))
    if not _is_there("cryptography"):
        found.append(Absent("rules that look inside of TLS", "tls", lambda probe: probe.place is Place.SUPPLIED))
    if not _is_there("botocore"):
        found.append(Absent("rules for object stores", "objects", lambda probe: probe.id.startswith(OF_OBJECTS)))
    return tuple(found)


def without(missing: Sequence[Absent], probes: Sequence[Probe]) -> tuple[Probe, ...]:
    """Those that are about something that is there."""
    return tuple(probe for probe in probes if not any(one.about(probe) for one in missing))


def conditions_of(missing: Sequence[Absent]) -> list[Condition]:
    from dayfly.prove import Condition

    return [
        Condition(
            name=f"not proven ({one.extra})",
            value=f"{one.what}: not installed, so it cannot be used",
            state="amber",
            remedy=f"pip install 'dayfly[{one.extra}]', where it is wanted",
        )
        for one in missing
    ]


def _is_there(name: str) -> bool:
    return find_spec(name) is not None
