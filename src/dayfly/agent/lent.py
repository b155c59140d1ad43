"""What the settings of the network lend to the environment of everything inside: variables, and one more authority to believe.

Law: what the user has set stays. A variable is lent where there is none of that name, follows the settings while it has the
value that it was lent with, and is anybody's else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Row = tuple[str, "str | None", "str | None"]


class Lent:
    """``authority``: the certificate as PEM, ``""`` for none; ``authority_file``: where it lies while there is one."""

    __slots__ = ("authority", "authority_file", "variables")

    def __init__(self, variables: Mapping[str, str], authority: str = "", authority_file: str = "") -> None:
        self.variables = dict(variables)
        self.authority = authority
        self.authority_file = authority_file


NOTHING = Lent({})


class Change:
    """What a live kernel is told before its next cell. Each row: a variable, the value that it has if nobody has changed it
    (``None``: it is not there), and the one that it gets."""

    __slots__ = ("authority", "authority_file", "rows")

    def __init__(self, rows: list[Row], authority: str, authority_file: str) -> None:
        self.rows = rows
        self.authority = authority
        self.authority_file = authority_file

    @property
    def record(self) -> dict[str, object]:
        return {"rows": self.rows, "authority": self.authority, "file": self.authority_file}


class Told:
    """What one kernel knows of it. ``environment`` is what it was started with, or has taken over."""

    __slots__ = ("_authority", "_variables")

    def __init__(self, lent: Lent, environment: Mapping[str, str]) -> None:
        self._variables = {name: environment[name] for name in lent.variables}
        self._authority = lent.authority

    def knows(self, lent: Lent) -> bool:
        return self._authority == lent.authority

    def change(self, lent: Lent, environment: Mapping[str, str]) -> Change | None:
        """From what it knows to what there is now; it knows that from here on. ``None``: nothing."""
        rows: list[Row] = []
        for name in {**self._variables, **lent.variables}:
            before, after = self._variables.get(name), environment.get(name)
            if before != after:
                rows.append((name, before, after))
        if not rows and self.knows(lent):
            return None
        self._variables = {name: environment[name] for name in lent.variables}
        self._authority = lent.authority
        return Change(rows, lent.authority, lent.authority_file)
