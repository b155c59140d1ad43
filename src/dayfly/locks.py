"""Lock files as lists of packages: exact versions and hashes of everything that a project needs.

They are read where a policy is written, by whoever writes it. A policy that is parsed has no paths of them: on a server they
would be the server's.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from dayfly.errors import InputError

__all__ = ["expanded", "node_lock", "python_lock"]

MOST_BYTES = 32 * 1024 * 1024
"""Of a lock file. package-lock.json of a large project has 2 MiB."""

_OPTION = re.compile(r"\s--(?:hash=(?P<hash>[a-z0-9]+:[0-9a-fA-F]+)|\S+)")
_HOW = "requirements.txt with versions (and hashes), pylock.toml, or package-lock.json"


def expanded(policy: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A policy's data with what its lock files list in place of them: ``packages = {python = [{lock = "requirements.txt"}]}``.
    Relative paths are below ``directory``. What is no such thing stays as it is, for whoever parses it. Raises ``InputError``."""
    rules = policy.get("network")
    if not isinstance(rules, list):
        return policy
    return {**policy, "network": [_rule(one, directory) for one in rules]}


def _rule(rule: object, directory: Path) -> object:
    packages = rule.get("packages") if isinstance(rule, dict) else None
    if not isinstance(rule, dict) or not isinstance(packages, dict):
        return rule
    read: dict[str, Callable[[Path], list[str]]] = {"python": python_lock, "node": node_lock}
    found = {
        kind: [name for entry in entries for name in _entry(entry, directory, read[kind])]
        for kind, entries in packages.items()
        if kind in read and isinstance(entries, list)
    }
    return {**rule, "packages": {**packages, **found}}


def _entry(entry: object, directory: Path, read: Callable[[Path], list[str]]) -> Iterable[object]:
    if isinstance(entry, dict) and set(entry) == {"lock"} and isinstance(entry["lock"], str):
        return read(directory / entry["lock"])
    return (entry,)


def python_lock(path: Path | str) -> list[str]:
    """Of a pylock.toml (PEP 751), or of a requirements file in which every version is given. Raises ``InputError``."""
    file = Path(path)
    text = _text(file)
    if file.suffix == ".toml":
        return list(_pylock(file, _parsed(file, tomllib.loads, text)))
    return list(_requirements(file, text))


def node_lock(path: Path | str) -> list[str]:
    """Of a package-lock.json, version 2 or 3. Raises ``InputError``."""
    file = Path(path)
    told = _parsed(file, json.loads, _text(file))
    packages = told.get("packages")
    if not isinstance(packages, dict):
        raise InputError(f"{file} lists no packages", remedy="npm install --package-lock-only writes one of version 3")
    return list(dict.fromkeys(_locked(file, packages)))


def _requirements(file: Path, text: str) -> Iterator[str]:
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        plain = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not plain or plain.startswith(("--index-url", "--extra-index-url", "-i ", "--only-binary", "--no-binary")):
            continue
        hashes = [f"--hash={match['hash']}" for match in _OPTION.finditer(plain) if match["hash"]]
        requirement = _requirement(file, _OPTION.sub("", plain).strip())
        yield " ".join([f"{requirement.name}{requirement.specifier}", *hashes])


def _requirement(file: Path, text: str) -> Requirement:
    try:
        found = Requirement(text)
    except InvalidRequirement:
        raise InputError(f"{file} has a line that names no package: {text!a:.80}", remedy=_HOW) from None
    pinned = [one for one in found.specifier if one.operator == "==" and not one.version.endswith("*")]
    if found.url or not pinned:
        raise InputError(
            f"{file} does not lock {found.name} to a version",
            remedy="have uv pip compile --generate-hashes, pip-compile or pip lock make the file",
        )
    return found


def _pylock(file: Path, told: Mapping[str, Any]) -> Iterator[str]:
    packages = told.get("packages")
    for one in packages if isinstance(packages, list) else []:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not isinstance(one.get("version"), str):
            raise InputError(f"{file} has a package without a name or a version", remedy=_HOW)
        files = [*_tables(one.get("wheels")), *_tables([one.get("sdist")])]
        hashes = sorted({f"--hash=sha256:{digits}" for each in files if (digits := _tables_hash(each))})
        yield " ".join([f"{one['name']}=={one['version']}", *hashes])


def _tables(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _tables_hash(file: Mapping[str, Any]) -> str | None:
    hashes = file.get("hashes")
    found = hashes.get("sha256") if isinstance(hashes, dict) else None
    return found if isinstance(found, str) else None


def _locked(file: Path, packages: Mapping[str, Any]) -> Iterator[str]:
    for place, one in packages.items():
        _, here, name = place.rpartition("node_modules/")
        if not here or not isinstance(one, dict) or one.get("link") or not isinstance(one.get("version"), str):
            continue  # the project itself, and packages that lie in it
        name = one["name"] if isinstance(one.get("name"), str) else name  # under another name than its own
        integrity = one.get("integrity", "")
        strong = [each for each in str(integrity).split() if each.startswith(("sha512-", "sha384-", "sha256-"))]
        yield " ".join([f"{name}@{one['version']}", *strong])


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{file} is too large for a lock file", remedy=_HOW)
        return content.decode("utf-8")
    except OSError as error:
        raise InputError(
            f"cannot read the lock file {file}: {error.strerror}", remedy="paths are relative to the policy's file"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8", remedy=_HOW) from error


def _parsed(file: Path, parse: Callable[[str], Any], text: str) -> Mapping[str, Any]:
    try:
        found = parse(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is no lock file: {error}"[:300], remedy=_HOW) from None
    if not isinstance(found, dict):
        raise InputError(f"{file} is no lock file", remedy=_HOW)
    return found
