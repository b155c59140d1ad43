"""What this machine's package tools are set to, as their files and their variables have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["npm_settings", "settings_text"]

_MOST_BYTES = 65_536
"""Of one file: they have a few lines."""

_PREFIX = "npm_config_"
_VARIABLE = re.compile(r"\$\{(\w{1,100})\}")


def npm_settings(env: Mapping[str, str], etc: Path = Path("/etc")) -> Iterator[tuple[str, str]]:
    """Names and values of the machine's file, then the user's, then the environment's: of two that name the same the later one
    counts. What cannot be read counts as empty."""
    set_here = dict(_in_environment(env))
    user = Path(set_here.get("userconfig") or Path(env.get("HOME") or "/") / ".npmrc")
    for file in (Path(set_here.get("globalconfig") or etc / "npmrc"), user):
        for line in settings_text(file).splitlines():
            name, equals, value = line.partition("=")
            if equals and not name.lstrip().startswith((";", "#")):
                yield name.strip(), _VARIABLE.sub(lambda one: env.get(one[1], ""), value.strip().strip("\"'"))
    yield from set_here.items()


def _in_environment(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``npm_config_NAME``, with ``_`` for ``-`` but at its beginning, and in capitals or not; names of registries stay as they are.
    An empty one is none."""
    for variable, value in env.items():
        if value and variable.lower().startswith(_PREFIX):
            name = variable[len(_PREFIX) :]
            yield name if name.startswith("//") else (name[:1] + name[1:].replace("_", "-")).lower(), value


def settings_text(file: Path) -> str:
    """Of a small file; what is no UTF-8 is replaced, and what cannot be read is empty."""
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
