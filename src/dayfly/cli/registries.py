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

__all__ = ["registries"]

_LINE = re.compile(r"""^\s*(?:@[^\s:=]+:)?(?:registry|repository)\s*[=:]\s*["']?([^\s"']+)""", re.MULTILINE)
"""Of an npmrc (``registry = URL``, ``@scope:registry = URL``) and of a pypirc (``repository = URL``)."""

_MOST_BYTES = 65_536
"""Of one file: they have a few lines, and advice is not worth more memory."""


def registries(environment: Mapping[str, str] | None = None, *, etc: Path = Path("/etc")) -> frozenset[str]:
    """Names of hosts. ``environment`` defaults to ``os.environ``; what cannot be read counts as empty."""
    env = os.environ if environment is None else environment
    return frozenset(host for url in _urls(env, etc) if (host := _host(url)))


def _urls(env: Mapping[str, str], etc: Path) -> Iterator[str]:
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY", "TWINE_REPOSITORY_URL"):
        if name in env:
            yield env[name]
    home = Path(env.get("HOME") or "/")
    user = Path(env.get("NPM_CONFIG_USERCONFIG") or home / ".npmrc")
    for file in (etc / "npmrc", user, home / ".pypirc"):
        yield from _LINE.findall(_text(file))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
