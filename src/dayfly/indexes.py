"""The package indexes that this machine is set to: asked from its own pip and npm, whose defaults are theirs to know.

What a sandbox installs comes from there, through the gateway; credentials stay with the gateway.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote, urlsplit, urlunsplit

from dayfly.errors import HostError, PolicyError
from dayfly.hosts import BadHost, IsAddress, canonical
from dayfly.images.pip import pip_command
from dayfly.network import PackageKind, PackagesRule, RuleList
from dayfly.tool_settings import npm_settings

__all__ = ["SECONDS", "MachineIndexes", "package_indexes"]

SECONDS = 20.0
"""For one answer of pip or npm: both start in a second or two on a slow machine, and one that hangs is not waited for."""

_SETTING = re.compile(r"^(?P<section>[^.\s]+)\.(?P<key>[a-z-]+)='(?P<value>[^'\n]*)'$", re.MULTILINE)
_DEFAULT = re.compile(r"--index-url\s+<url>\s[^\n]*?\(default:?\s+(?P<url>[^\s)]+)\)")


def package_indexes(environment: Mapping[str, str] | None = None) -> dict[PackageKind, str]:
    """URLs with what credentials they have, as ``user:password@``, or ``:token@`` for a bearer. What cannot be told is left out.

    ``environment`` defaults to ``os.environ``. It takes a second or three, and at most three times ``SECONDS``. Never raises.
    """
    env = dict(os.environ if environment is None else environment)
    found: dict[PackageKind, str] = {}
    if python := _python(env):
        found["python"] = python
    if node := _node(env):
        found["node"] = node
    return found


class MachineIndexes:
    """What rules need of them. The machine is asked when a rule first names packages, and not again. On one loop."""

    def __init__(self, ask: Callable[[], dict[PackageKind, str]] = package_indexes) -> None:
        self._ask = ask
        self._asking: asyncio.Future[dict[PackageKind, str]] | None = None

    async def of(self, rules: RuleList) -> dict[PackageKind, str]:
        """Raises ``PolicyError`` where this machine has none of a kind that a rule names packages of."""
        named = [rule.packages for rule in rules if isinstance(rule, PackagesRule)]
        needed: list[PackageKind] = [kind for kind in _KINDS if any(getattr(one, kind) for one in named)]
        if not needed:
            return {}
        if self._asking is None:
            self._asking = asyncio.ensure_future(asyncio.to_thread(self._ask))
        found = await asyncio.shield(self._asking)
        for kind in needed:
            if kind not in found:
                raise PolicyError(
                    f"packages.{kind}: this machine is set to no index of such packages", remedy=_HOW[kind]
                )
            if why := _unusable(found[kind]):
                raise PolicyError(f"packages.{kind}: the index that this machine is set to {why}", remedy=_HOW[kind])
        return {kind: found[kind] for kind in needed}


def _unusable(url: str) -> str | None:
    """What can be told from the URL alone; nothing of it is shown, since it may have credentials."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http"):
            return "is neither https nor http, and cannot be used"
        canonical(parts.hostname or "")
    except IsAddress:
        return "is at an address, and only one that has a name can be used"
    except (BadHost, ValueError):
        return "has no host, and cannot be used"
    return None


_KINDS: tuple[PackageKind, ...] = ("python", "node")
_HOW: dict[PackageKind, str] = {
    "python": "pip config set global.index-url URL, for the user that runs dayfly, and start it anew",
    "node": "npm config set registry URL, for the user that runs dayfly, and start it anew",
}


# --- pip --------------------------------------------------------------------------------------------------------------


def _python(env: Mapping[str, str]) -> str | None:
    try:
        pip = pip_command()
    except (HostError, OSError):
        return None
    settings = _output([*pip, "config", "list"], env)
    if settings is None:
        return None
    told = {(match["section"], match["key"]): match["value"] for match in _SETTING.finditer(settings)}
    if _setting(told, "no-index") not in (None, "0", "false", "False", "no", "off"):
        return None
    return _setting(told, "index-url") or _default(_output([*pip, "install", "--help"], {**env, "COLUMNS": "2000"}))


def _setting(told: Mapping[tuple[str, str], str], key: str) -> str | None:
    """The environment goes before what is said of ``pip install``, and that before what is said of pip."""
    return next((told[where, key] for where in (":env:", "install", "global") if told.get((where, key))), None)


def _default(help_text: str | None) -> str | None:
    match = _DEFAULT.search(help_text or "")
    return match["url"] if match else None


# --- npm --------------------------------------------------------------------------------------------------------------


def _node(env: Mapping[str, str]) -> str | None:
    settings = dict(npm_settings(env))
    npm = shutil.which("npm", path=env.get("PATH"))
    told = (_output([npm, "config", "get", "registry"], env) or "") if npm else ""
    url = told.strip() or settings.get("registry")
    return _with_credentials(url, settings) if url and url.startswith(("https://", "http://")) else None


def _with_credentials(url: str, settings: Mapping[str, str]) -> str:
    """npm keeps them under the registry's URL without its scheme, or one that it is below."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return url
    path = parts.path if parts.path.endswith("/") else parts.path + "/"
    while True:
        nerf = f"//{parts.netloc}{path}"
        if userinfo := _userinfo(nerf, settings):
            return urlunsplit((parts.scheme, f"{userinfo}@{parts.netloc}", parts.path, "", ""))
        if path == "/":
            return url
        path = path.rstrip("/").rpartition("/")[0] + "/"


def _userinfo(nerf: str, settings: Mapping[str, str]) -> str | None:
    if token := settings.get(f"{nerf}:_authToken"):
        return ":" + quote(token, safe="")
    pair = _decoded(settings.get(f"{nerf}:_auth", ""))
    if not pair and f"{nerf}:username" in settings:
        pair = f"{settings[f'{nerf}:username']}:{_decoded(settings.get(f'{nerf}:_password', ''))}"
    user, _, password = pair.partition(":")
    return f"{quote(user, safe='')}:{quote(password, safe='')}" if user else None


def _decoded(text: str) -> str:
    try:
        return b64decode(text, validate=True).decode()
    except ValueError:
        return ""


# --- this machine -----------------------------------------------------------------------------------------------------


def _output(argv: Sequence[str], env: Mapping[str, str], seconds: float = SECONDS) -> str | None:
    """What a program prints; ``None``: it failed, or was not done in time. It and what it has started are gone then. In ``/``,
    so that no project's own settings count."""
    try:
        child = subprocess.Popen(
            argv, env=dict(env), cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    try:
        said, _ = child.communicate(timeout=seconds)
        return said.decode(errors="replace") if child.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
