"""A secret that requests are given on their way out, by its name: nothing inside, nor a policy, ever has its value."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import field_validator, model_validator

from dayfly.limits import Checked, Unfit

__all__ = ["Inject", "secret_name", "unredactable"]

SHORTEST_REDACTED = 8
"""Characters of a value that is taken out of answers: what is shorter comes about by chance."""

MOST_MARKS = 128
"""Of such a value: what is no letter, digit, '_', '.' or '-' is spelled in many ways, and each costs time to look for."""

_MARK = re.compile(r"[^A-Za-z0-9_.-]")

_SECRET = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TAKEN = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect", "keep-alive"}
)  # fmt: skip
"""Headers that say how a request is carried, which a secret has no place in."""


def secret_name(name: str) -> str:
    """Raises ``Unfit``."""
    if not _SECRET.fullmatch(name):
        raise Unfit(f"not a secret's name: {name!a:.80}", "1 to 64 of a-z, 0-9, '_', '.' and '-', such as 'crm-token'")
    return name


def unredactable(text: str) -> str | None:
    """Why a value cannot be taken out of answers, as a clause whose subject is the value."""
    if len(text) < SHORTEST_REDACTED:
        return (
            f"is shorter than the {SHORTEST_REDACTED} characters that can be told from other text in an answer (redact)"
        )
    if len(_MARK.findall(text)) > MOST_MARKS:
        return f"has more than {MOST_MARKS} marks, which take too long to find in an answer (redact)"
    return None


class Inject(Checked):
    """Raises ``PolicyError``."""

    secret: str
    """Its name in the store of whoever runs the sandboxes (``dayfly secrets``), which also says for which hosts it is."""

    into: Literal["bearer", "basic", "header", "query"] = "bearer"
    """``Authorization: Bearer VALUE``; ``Authorization: Basic`` of a value ``user:password``; a header; a parameter of the query."""

    name: str | None = None
    """Of the header or of the parameter."""

    redact: bool = False
    """Whether the value is taken out of responses too, where a server sends it back."""

    @field_validator("secret")
    @classmethod
    def _a_name(cls, secret: str) -> str:
        return secret_name(secret)

    @model_validator(mode="after")
    def _named(self) -> Inject:
        needed = self.into in ("header", "query")
        if needed and (self.name is None or not _NAME.fullmatch(self.name) or self.name.lower() in _TAKEN):
            raise Unfit(f"not a name for a {self.into}: {self.name!a:.80}", "write it as name = 'X-Api-Key'")
        if self.name is not None and not needed:
            raise Unfit(f"{self.into} has no name of its own", "leave name out")
        return self
