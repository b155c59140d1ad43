"""A policy under a name, of which sandboxes are kept ready."""

from __future__ import annotations

from dataclasses import dataclass

from dayfly.errors import PolicyError
from dayfly.policy import Policy

__all__ = ["PRESTART", "Template", "fits", "preloading"]

PRESTART = ("python",)
"""Kernels that start with the sandbox: nearly every conversation begins with Python."""

MAX_SPARES = 1000
"""Of one template: each is a process and some 20 MB."""

_PERSONAL = frozenset({"run_seconds", "run_cpu_seconds", "output", "lifetime_seconds", "idle_seconds"})
"""Limits that the host's side keeps, so that a claim may bring its own; the rest the boundary has set already."""


@dataclass(frozen=True)
class Template:
    """``spares`` unused sandboxes wait to be claimed, none of them for longer than ``spare_seconds``.

    ``preload`` are Python modules that their kernel has imported already; no name of the kernel's is set by that.
    """

    name: str
    policy: Policy
    spares: int = 1
    spare_seconds: float = 1800.0
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for module in self.preload:
            if not all(part.isidentifier() for part in module.split(".")):
                raise PolicyError(f"not a Python module: {module!a:.80}", remedy="for example 'matplotlib.pyplot'")
        if not 0 < len(self.name) <= 64 or not self.name.isprintable():
            raise PolicyError(f"not a template's name: {self.name!a:.80}", remedy="1 to 64 printable characters")
        if not 0 <= self.spares <= MAX_SPARES:
            raise PolicyError(f"not a number of spares: {self.spares}", remedy=f"0 to {MAX_SPARES}")
        if not 1 <= self.spare_seconds <= 86400:
            raise PolicyError(f"a spare cannot wait for {self.spare_seconds:g} s", remedy="1 second to a day")


FIRST_CELL = r"""
import os, sys, json
from os import path as where
def double(value: int = 1, *more: int, **named: object) -> int:
    'Twice.'
    return value * 2 + len(more) + len(named)
class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right
    @property
    def sum(self):
        return self.left + self.right
rows = [{"name": f"n{i}", "value": double(i) / 3} for i in range(20) if i % 2]
total = sum(row["value"] for row in rows)
by_name = {row["name"]: row for row in rows}
try:
    by_name["absent"]
except KeyError as error:
    found = str(error)
with open(os.devnull) as empty:
    text = empty.read()
for name, row in sorted(by_name.items(), key=lambda item: item[0])[:3]:
    print(f"{name:>5}: {row['value']:.2f}", json.dumps(row), where.join("a", name), sep="\t")
while total > 1e9 and not text:
    total -= 1
assert Pair(1, total).sum > 0, "never"
"""
"""A bit of everything that a first cell is made of. What of the interpreter nobody used since the restore is still to be
mapped: with this, a first run takes 2.5 ms, and 3.5 without."""


def preloading(modules: tuple[str, ...]) -> str:
    """The code that a spare runs before it is anybody's, silently: it shows nothing, and leaves no name behind, nor another
    ``_`` than a notebook begins with. The value at its end is for what shows values."""
    return "".join(f"if __import__({module!r}): pass\n" for module in modules) + f"exec({FIRST_CELL!r}, {{}})\n''"


def fits(spare: Policy, wanted: Policy) -> bool:
    """Whether a sandbox opened for ``spare`` can serve ``wanted``: equal but for what is kept outside of the boundary.

    Spares wait without a network, whatever their template's policy says, and nothing was copied into them, so that any claim
    may bring its own.
    """
    return _rigid(spare) == _rigid(wanted)


def _rigid(policy: Policy) -> dict[str, object]:
    return policy.model_dump(exclude={"limits": set(_PERSONAL), "network": True, "inputs": True, "outputs": True})
