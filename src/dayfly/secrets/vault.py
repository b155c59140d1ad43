"""Which values a sandbox's rules get, of all sources together.

Law: what a rule names and does not get is told, and then there is no sandbox with that rule: nothing goes out without the secret it was meant to have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from dayfly.errors import PolicyError
from dayfly.network import BaseRule, Network
from dayfly.owner import NOBODY, Owner
from dayfly.secrets.entry import Entry
from dayfly.secrets.environment import Environment
from dayfly.secrets.files import Files, StoreProblem
from dayfly.secrets.ring import Ring
from dayfly.secrets.value import unfit

__all__ = ["Missing", "Resolved", "Vault"]


@dataclass(frozen=True)
class Missing:
    """``rule``: its index. ``reason``: a sentence without its point."""

    rule: int
    name: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Resolved:
    values: dict[str, str] = field(default_factory=dict, repr=False)
    """By name: all that every rule that names it may have. This is for the gateway."""

    missing: tuple[Missing, ...] = ()

    def whole(self) -> dict[str, str]:
        """The values. Raises ``PolicyError`` where one is missing."""
        if self.missing:
            told = "; ".join(f"network[{one.rule}]: {one.reason}" for one in self.missing)
            remedies = dict.fromkeys(one.remedy for one in self.missing)
            raise PolicyError(told, remedy="; ".join(remedies))
        return self.values


class Vault:
    """What is asked of it is read anew each time. It reads files and may ask a keyring, up to 15 s for a secret there: nothing for an event
    loop's own thread."""

    def __init__(self, files: Files, environment: Environment, ring: Ring) -> None:
        self._files = files
        self._environment = environment
        self._ring = ring

    def __repr__(self) -> str:
        return f"<Vault: {self._files.directory}>"

    @classmethod
    def at(cls, directory: Path) -> Vault:
        """Of files in ``directory``, which need not be there, this process's environment, and this user's keyring."""
        return cls(Files(directory), Environment(os.environ), Ring())

    def resolve(self, rules: Network, owner: Owner) -> Resolved:
        """Never raises for a secret that is not to be had."""
        listed = () if isinstance(rules, str) else rules
        names = sorted({name for rule in listed for name in rule.secrets})
        found = {name: self._answer(name, owner) for name in names}
        missing = tuple(
            one
            for index, rule in enumerate(listed)
            for name in sorted(rule.secrets)
            for one in _missing(index, rule, name, found[name])
        )
        lacking = {one.name for one in missing}
        values = {
            name: one.value.get_secret_value()
            for name, one in found.items()
            if one.value is not None and name not in lacking
        }
        return Resolved(values, missing)

    def all(self) -> tuple[list[Entry], list[StoreProblem]]:
        """What is there of all sources, the environment's first, and what cannot be used."""
        (of_environment, wrong), (of_files, damaged) = self._environment.all(), self._files.all()
        return [*of_environment, *of_files], [*wrong, *damaged]

    def _answer(self, name: str, owner: Owner) -> _Answer:
        try:
            entry = self._chosen(name, owner)
            return _Answer(entry, None if entry is None else self._value(entry))
        except StoreProblem as problem:
            return _Answer(None, None, problem.clause)

    def _chosen(self, name: str, owner: Owner) -> Entry | None:
        """The most specific one. Raises ``StoreProblem``: one that cannot be used is not passed over for a more general one."""
        of_environment = self._environment.find(name)
        for one in _stored_for(owner):
            if of_environment is not None and of_environment.owner == one:
                return of_environment
            if (entry := self._files.find(name, one)) is not None:
                return entry
        return None

    def _value(self, entry: Entry) -> SecretStr | None:
        """Raises ``StoreProblem``."""
        if entry.source == "environment":
            return self._environment.value(entry)
        return self._ring.value(entry) if entry.source == "keyring" else self._files.value(entry)


@dataclass(frozen=True)
class _Answer:
    entry: Entry | None
    value: SecretStr | None
    problem: str = ""


def _stored_for(owner: Owner) -> Iterator[Owner]:
    """Whose secrets a sandbox of ``owner``'s may use, the most specific first."""
    if owner.tenant and owner.conversation:
        yield owner
    if owner.tenant:
        yield Owner(owner.tenant)
    yield NOBODY


def _missing(index: int, rule: BaseRule, name: str, answer: _Answer) -> Iterator[Missing]:
    host = rule.leads_to
    how = f"dayfly secrets set {name}" + (f" --host {host}" if host else "")
    if answer.problem:
        yield Missing(index, name, f"the secret {name} {answer.problem}", _LIST)
    elif answer.entry is None or answer.value is None:
        yield Missing(index, name, f"there is no secret {name} here for this sandbox", f"{_WHO} can store it: {how}")
    elif not answer.entry.covers(host):
        yield Missing(index, name, f"the secret {name} is not for {host}", f"{_WHO} can store it for this host: {how}")
    elif (why := unfit(rule, answer.value)) is not None:
        yield Missing(index, name, f"the value of the secret {name} {why}", f"{_WHO} can store another one: {how}")


_WHO = "whoever runs the sandboxes"
_LIST = f"{_WHO} can see more with: dayfly secrets list"
