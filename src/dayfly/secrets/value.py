"""What a value may be, and what it has to be for the use that a rule makes of it. Answers speak of it and never show it."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import SecretStr

from dayfly.errors import InputError
from dayfly.network import BaseRule, Inject, ObjectsRule, Rule, unredactable

__all__ = ["LONGEST_VALUE", "checked_value", "unfit"]

LONGEST_VALUE = 8192
"""Bytes: what servers take at most in all headers together. Tokens have some hundred."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_VISIBLE = re.compile(r"[\x21-\x7e]+(?: +[\x21-\x7e]+)*")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_OF_A_STORE = re.compile(r"[\x21-\x39\x3b-\x7e]+(?::[\x21-\x39\x3b-\x7e]+){1,2}")


def checked_value(value: SecretStr) -> SecretStr:
    """The value, if it can be one. Raises ``InputError``."""
    problem = _problem(value)
    if problem is not None:
        raise InputError(f"this is no secret's value: it {problem}", remedy=_HOW)
    return value


_HOW = "give the bare value: one line of text, without blanks around it"


def _problem(value: SecretStr) -> str | None:
    text = value.get_secret_value()
    if not text:
        return "is empty"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "is not UTF-8"
    if len(text.encode()) > LONGEST_VALUE:
        return f"is longer than {LONGEST_VALUE} bytes"
    if _CONTROL.search(text):
        return "has a line break or another control character"
    return "begins or ends with a blank" if text.strip() != text else None


def unfit(rule: BaseRule, value: SecretStr) -> str | None:
    """Why ``rule`` cannot use the value, as a clause whose subject is the value."""
    text = value.get_secret_value()
    if isinstance(rule, ObjectsRule):
        return None if _OF_A_STORE.fullmatch(text) else "is not KEY_ID:SECRET, nor KEY_ID:SECRET:SESSION_TOKEN"
    inject = rule.inject if isinstance(rule, Rule) else None
    return None if inject is None else _FORMS[inject.into](text) or _unredactable(inject, text)


def _basic(text: str) -> str | None:
    return None if ":" in text else "is not USER:PASSWORD, which 'basic' needs"


_FORMS: dict[str, Callable[[str], str | None]] = {
    "bearer": lambda text: None if _TOKEN.fullmatch(text) else "is not plain visible text, which a bearer token is",
    "header": lambda text: None if _VISIBLE.fullmatch(text) else "is not plain visible text, which a header has",
    "basic": _basic,
    "query": lambda text: None,
}


def _unredactable(inject: Inject, text: str) -> str | None:
    if not inject.redact:
        return None
    return unredactable(text.partition(":")[2] if inject.into == "basic" else text) or unredactable(text)
