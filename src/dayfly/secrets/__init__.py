"""Secrets by name, which rules speak of and nothing else has: their values never come in.

Laws: a value is told to nobody but the gateway, and only for hosts that it was stored for. It is in no ``repr``, no error and no line of a log;
what holds one between two functions is a ``SecretStr``.
"""

from __future__ import annotations

from pydantic import SecretStr

from dayfly.secrets.entry import Entry
from dayfly.secrets.environment import Environment
from dayfly.secrets.files import Files, StoreProblem
from dayfly.secrets.ring import Ring
from dayfly.secrets.value import LONGEST_VALUE, checked_value
from dayfly.secrets.vault import Missing, Resolved, Vault

__all__ = [
    "LONGEST_VALUE",
    "Entry",
    "Environment",
    "Files",
    "Missing",
    "Resolved",
    "Ring",
    "SecretStr",
    "StoreProblem",
    "Vault",
    "checked_value",
]
