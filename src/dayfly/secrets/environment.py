"""Secrets that come with the process, as containers are given theirs: ``DAYFLY_SECRET_NAME``, and what is known of it beside it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from dayfly.errors import InputError
from dayfly.secrets.entry import Entry
from dayfly.secrets.files import StoreProblem
from dayfly.secrets.value import checked_value

__all__ = ["PREFIX", "Environment"]

PREFIX = "DAYFLY_SECRET_"
"""Then the name in capitals, with ``_`` for ``-`` and ``.``: there the three are one."""

HOSTS, TENANT, CONVERSATION = "__HOSTS", "__TENANT", "__CONVERSATION"
"""Behind that: hosts, separated by blanks or commas; whose it is."""


class Environment:
    """``variables`` are looked at anew each time."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def __repr__(self) -> str:
        return f"<Environment: {len(self._named())} secrets>"

    def find(self, name: str) -> Entry | None:
        """Raises ``StoreProblem``."""
        variable = _variable(name)
        if variable not in self._variables or variable.endswith((HOSTS, TENANT, CONVERSATION)):
            return None
        try:
            return Entry(
                name=name,
                hosts=tuple(self._variables.get(variable + HOSTS, "").replace(",", " ").split()),
                tenant=self._variables.get(variable + TENANT) or None,
                conversation=self._variables.get(variable + CONVERSATION) or None,
                source="environment",
            )
        except InputError as error:
            raise StoreProblem(
                f"{variable}: {error.message}", clause="is wrongly described in the environment", remedy=error.remedy
            ) from None

    def value(self, entry: Entry) -> SecretStr:
        """Raises ``StoreProblem``."""
        variable = _variable(entry.name)
        try:
            return checked_value(SecretStr(self._variables.get(variable, "")))
        except InputError as error:
            raise StoreProblem(
                f"{variable}: {error.message}", clause="has no usable value in the environment", remedy=error.remedy
            ) from None

    def all(self) -> tuple[list[Entry], list[StoreProblem]]:
        """Under the names that they have with ``_``, and what cannot be used."""
        entries, problems = [], []
        for name in self._named():
            try:
                found = self.find(name)
            except StoreProblem as problem:
                problems.append(problem)
            else:
                entries += [found] if found else []
        return entries, problems

    def _named(self) -> list[str]:
        found = (one.removeprefix(PREFIX) for one in self._variables if one.startswith(PREFIX))
        return sorted(one.lower() for one in found if not one.endswith((HOSTS, TENANT, CONVERSATION)))


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_").replace(".", "_")
