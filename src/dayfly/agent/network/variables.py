"""Variables that come with the rules of the network: where an object store or an index of packages is, inside."""

from __future__ import annotations

from dayfly.agent.session import BadRequest

MAX_VARIABLES = 64
MAX_NAME = 128
MAX_VALUE = 4096
"""Characters. What needs more is no endpoint."""

_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_NAME = _FIRST | frozenset("0123456789")


def checked_variables(value: dict[object, object]) -> dict[str, str]:
    """Those that a shell can take, or ``BadRequest``."""
    if len(value) > MAX_VARIABLES:
        raise BadRequest(f"more than {MAX_VARIABLES} variables")
    for name, text in value.items():
        if not _is_name(name) or not isinstance(text, str):
            raise BadRequest(f"not a variable: {ascii(name)[:80]}")
        if len(text) > MAX_VALUE or not text.isprintable():
            raise BadRequest(f"not a value of a variable: that of {name}")
    return value  # type: ignore[return-value]


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and name[0] in _FIRST and _NAME.issuperset(name)
