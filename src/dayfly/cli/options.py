"""Options that several commands share, and what becomes of them: a policy."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dayfly.errors import InputError, PolicyError
from dayfly.locks import expanded
from dayfly.network import Rule
from dayfly.policy import Policy, parse_policy

__all__ = [
    "Allow",
    "Cpus",
    "Env",
    "ImageName",
    "Learn",
    "Memory",
    "PolicyFile",
    "Timeout",
    "Verbose",
    "environment_of",
    "policy_of",
]

Timeout = Annotated[float | None, typer.Option(help="Wall seconds that a run may take (default 60).")]
Memory = Annotated[str | None, typer.Option(help="Memory for everything inside, such as 512MiB (default 1GiB).")]
Cpus = Annotated[float | None, typer.Option(help="Cores (default 1).")]
ImageName = Annotated[str | None, typer.Option(help="Image to run in (default: the policy's, 'data').")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say which limits this machine only watches.")]
PolicyFile = Annotated[Path | None, typer.Option(help="A policy as a TOML file.")]
Env = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Environment variable inside; everything there can read it."),
]

Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST[:PORT,...]", help="A name that code inside may connect to (default port 443); again for more."
    ),
]

Learn = Annotated[
    bool,
    typer.Option("--learn", help="Deny all connections, and print the rules that would have allowed them."),
]

_OPTIONS = {"memory": "--memory", "cpus": "--cpus", "run_seconds": "--timeout"}
_MARGIN = 60.0  # seconds of lifetime around a long run, for what goes in before and comes out after
_POLICY_CAP = 1024 * 1024  # bytes of a policy file: more is a mistake


def policy_of(
    file: Path | None,
    *,
    image: str | None,
    timeout: float | None,
    memory: str | None,
    cpus: float | None,
    allow: list[str] | None = None,
    learn: bool = False,
) -> Policy:
    """The policy in ``file`` (or the defaults), changed by the options. Raises ``PolicyError`` or ``InputError``."""
    data = expanded(_read(file), file.parent) if file else {}
    limits = data.setdefault("limits", {})
    if not isinstance(limits, dict):
        raise InputError(f"{file}: limits must be a table", remedy="write [limits], and its keys in the lines below")
    given = {"memory": memory, "cpus": cpus, "run_seconds": timeout}
    limits.update({name: value for name, value in given.items() if value is not None})
    if image is not None:
        data["image"] = image
    if learn:
        data["network"] = "learn"
    if allow:  # a server hears only of what somebody has set
        data["network"] = _with_allowed(data.get("network", "none"), allow)
    policy = _parse(data, file, {_OPTIONS[name]: name for name, value in given.items() if value is not None})
    return _with_room_for(policy, timeout) if timeout is not None else policy


def _parse(data: dict[str, Any], file: Path | None, options: dict[str, str]) -> Policy:
    """Parse, and speak of a wrong value as the user wrote it: as an option, or as a key of the file."""
    try:
        return parse_policy(data)
    except PolicyError as error:
        message = error.message
        for option, name in options.items():
            message = re.sub(rf"\blimits\.{name}\b", option, message)
        of_file = any(not part.startswith("--") for part in message.split("; "))
        place = f"{file}: " if file and of_file else ""
        raise PolicyError(f"{place}{message}", remedy=error.remedy) from error


def _with_allowed(told: object, allow: list[str]) -> object:
    """What the file or ``--learn`` says, and the rules of ``--allow`` after it. Raises ``PolicyError`` or ``InputError``."""
    if told == "learn":
        raise InputError(
            "to learn is to reach nothing, and --allow names what may be reached", remedy="choose one of the two"
        )
    allowed = [rule for item in allow for rule in rules_of(item)]
    if told == "none":
        return allowed
    return [*told, *allowed] if isinstance(told, list) else told  # that is refused


def rules_of(item: str) -> list[Rule]:
    """``HOST[:PORT,...]``: a rule for port 80, which speaks http, and one for all others. Raises ``PolicyError``."""
    parts = _HOST_AND_PORTS.fullmatch(item)
    if parts is None:
        raise PolicyError(f"--allow {item!a:.100}: not HOST, nor HOST:PORT,PORT", remedy=_HOW_ALLOW)
    ports = [int(port) for port in (parts["ports"] or "443").split(",")]
    groups = [[port for port in ports if (port == 80) is plain] for plain in (False, True)]
    try:
        return [Rule(host=parts["host"], ports=tuple(group)) for group in groups if group]
    except PolicyError as error:
        raise PolicyError(f"--allow {item!a:.100}: {error.message}", remedy=error.remedy) from error


_HOST_AND_PORTS = re.compile(r"(?P<host>[^:]+)(:(?P<ports>[0-9]{1,9}(,[0-9]{1,9})*))?")
_HOW_ALLOW = "for example --allow api.example.com, or --allow example.com:80,8443"


def _with_room_for(policy: Policy, timeout: float) -> Policy:
    """Whoever asks for more time does not mean that CPU time or the sandbox's life should cut it short."""
    limits = policy.limits
    cpu = timeout * limits.cpus
    wider = {
        "run_cpu_seconds": max(limits.run_cpu_seconds, cpu),
        "cpu_seconds": max(limits.cpu_seconds, cpu + _MARGIN),
        "lifetime_seconds": max(limits.lifetime_seconds, timeout + _MARGIN),
    }
    return policy.model_copy(update={"limits": limits.model_copy(update=wider)})


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_POLICY_CAP + 1)
        if len(content) > _POLICY_CAP:
            raise InputError(f"{file} is too large for a policy", remedy="give code as FILE, data with --in")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        remedy = "--policy takes a TOML file; without it the defaults hold"
        raise InputError(f"cannot read the policy {file}: {error.strerror}", remedy=remedy) from error
    except ValueError as error:  # not UTF-8, not TOML
        remedy = 'for example, in two lines: [limits], memory = "512MiB"'
        raise InputError(f"{file} is not TOML: {error}", remedy=remedy) from error


def environment_of(items: list[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` items as a dictionary. Raises ``InputError``."""
    found = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise InputError(f"not KEY=VALUE: {item!r}", remedy="for example --env DEBUG=1")
        found[name] = value
    return found
