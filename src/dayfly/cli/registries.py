"""The registries that this machine's npm and Python tools publish to: read from their configuration, for advice.

The list of registries in the world is nobody's; what this machine is set to is known. Where a registry takes packages, code
that reaches it can publish what it knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dayfly.tool_settings import npm_settings, settings_text

__all__ = ["registries"]

_LINE = re.compile(r"""^\s*repository\s*[=:]\s*["']?([^\s"']+)""", re.MULTILINE)
"""Of a pypirc."""


def registries(environment: Mapping[str, str] | None = None, *, etc: Path = Path("/etc")) -> frozenset[str]:
    """Names of hosts. ``environment`` defaults to ``os.environ``; what cannot be read counts as empty."""
    env = os.environ if environment is None else environment
    return frozenset(host for url in _urls(env, etc) if (host := _host(url)))


def _urls(env: Mapping[str, str], etc: Path) -> Iterator[str]:
    for name, value in npm_settings(env, etc):
        if name == "registry" or (name.startswith("@") and name.endswith(":registry")):
            yield value
    yield env.get("TWINE_REPOSITORY_URL", "")
    yield from _LINE.findall(settings_text(Path(env.get("HOME") or "/") / ".pypirc"))


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
