"""Entries of a list of packages: a name, perhaps versions of it, perhaps hashes of its files. Pure, and one spelling for each."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from dayfly.limits import Unfit

__all__ = ["LONGEST_ENTRY", "LONGEST_NAME", "NodeEntry", "PythonEntry", "node_entry", "node_name", "python_entry", "python_name", "semver"]  # fmt: skip

LONGEST_NAME = 214
"""Characters: what npm allows. Python has no bound of its own."""

LONGEST_ENTRY = 32 * 1024
"""Characters: some 400 hashes. A version of the largest packages has a hundred files."""

_LONGEST_SPECIFIER = 256

_PYTHON_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")  # PEP 508
_PYTHON = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s{0,9}(?P<versions>[^;@\[#]*)")
_HASH = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_NODE_NAME = re.compile(r"(?:@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~_][A-Za-z0-9._~-]*")
_NODE = re.compile(r"(?P<name>@?[^@]+)(?:@(?P<range>[\^~=]?)(?P<version>[^@]+))?")
_SEMVER = re.compile(
    r"(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})(?P<early>-[0-9A-Za-z.-]{1,128})?(?:\+[0-9A-Za-z.-]{1,128})?"
)
_SIZES = {"sha256": 32, "sha384": 48, "sha512": 64}

_HOW_PYTHON = "write it as 'name', 'name==1.2.3' or 'name>=1.2,<2'"
_HOW_NODE = "write it as 'name', 'name@1.2.3', 'name@^1.2.3' or '@scope/name@~1.2.3'"


@dataclass(frozen=True)
class PythonEntry:
    """``hashes`` as ``sha256:hex``; none: any file of these versions."""

    name: str
    versions: SpecifierSet
    hashes: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join([f"{self.name}{self.versions}", *(f"--hash={one}" for one in sorted(self.hashes))])

    def has(self, version: Version) -> bool:
        return self.versions.contains(version, prereleases=True)


@dataclass(frozen=True)
class NodeEntry:
    """``hashes`` as in Subresource Integrity, ``sha512-base64``; none: any file of these versions."""

    name: str
    range: str = ""
    version: str | None = None
    hashes: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join([self.name + (f"@{self.range}{self.version}" if self.version else ""), *sorted(self.hashes)])

    def has(self, version: str) -> bool:
        if self.version is None or not self.range:
            return self.version in (None, version)
        asked, least = semver(version), semver(self.version)
        if asked is None or least is None or "-" in version:  # a range has no versions before a release
            return False
        return least <= asked < _end(self.range, least)


def python_name(name: str) -> str:
    """In the one spelling of PEP 503. Raises ``Unfit``."""
    if len(name) > LONGEST_NAME or not _PYTHON_NAME.fullmatch(name):
        raise Unfit(f"not the name of a Python package: {name!a:.80}", _HOW_PYTHON)
    return str(canonicalize_name(name))


def node_name(name: str) -> str:
    """As it is: there capitals count. Raises ``Unfit``."""
    if len(name) > LONGEST_NAME or not _NODE_NAME.fullmatch(name) or name in ("node_modules", "favicon.ico"):
        raise Unfit(f"not the name of an npm package: {name!a:.80}", _HOW_NODE)
    return name


def semver(version: str) -> tuple[int, int, int] | None:
    """Of a version as npm has them; ``None``: it is none."""
    found = _SEMVER.fullmatch(version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


@lru_cache(maxsize=8192)
def python_entry(text: str) -> PythonEntry:
    """From a line of a requirements file: without extras, markers and URLs. Raises ``Unfit``."""
    words = text.split() if len(text) <= LONGEST_ENTRY else []
    hashes = [one for one in words if one.startswith("--hash=")]
    match = (
        _PYTHON.fullmatch(" ".join(words[: len(words) - len(hashes)]))
        if hashes == words[len(words) - len(hashes) :]
        else None
    )
    if match is None:
        raise Unfit(
            f"not a Python package with versions: {text!a:.80}", f"{_HOW_PYTHON}, without extras, markers or URLs"
        )
    name = python_name(match["name"])
    digests = frozenset(one.removeprefix("--hash=").lower() for one in hashes)
    for one in digests:
        if not _HASH.fullmatch(one):
            raise Unfit(f"{name} has a hash that is none: {one!a:.80}", "write it as --hash=sha256:, and 64 digits")
    return PythonEntry(name, _specifier(name, match["versions"].strip()), digests)


def _specifier(name: str, text: str) -> SpecifierSet:
    try:
        if len(text) > _LONGEST_SPECIFIER or "===" in text:  # === compares text, of which nobody knows what it means
            raise InvalidSpecifier
        return SpecifierSet(text.removeprefix("(").removesuffix(")") if text.startswith("(") else text)
    except InvalidSpecifier:
        raise Unfit(f"{name} has versions that are none: {text!a:.80}", _HOW_PYTHON) from None


@lru_cache(maxsize=8192)
def node_entry(text: str) -> NodeEntry:
    """``name``, ``name@1.2.3``, or a range with ``^`` or ``~`` of a whole version; hashes after that. Raises ``Unfit``."""
    first, *hashes = (text.split() if len(text) <= LONGEST_ENTRY else []) or [""]
    match = _NODE.fullmatch(first)
    if match is None:
        raise Unfit(f"not an npm package with a version: {text!a:.80}", _HOW_NODE)
    name, version = node_name(match["name"]), match["version"]
    if version is not None and (semver(version) is None or (match["range"] in ("^", "~") and "-" in version)):
        raise Unfit(f"{name} has a version that is none: {version!a:.80}", f"{_HOW_NODE}: all three numbers")
    for one in hashes:
        if not _is_integrity(one):
            raise Unfit(f"{name} has a hash that is none: {one!a:.80}", "write it as in package-lock.json: sha512-...")
    return NodeEntry(name, match["range"] if match["range"] != "=" and version else "", version, frozenset(hashes))


def _is_integrity(text: str) -> bool:
    kind, _, digest = text.partition("-")
    try:
        return len(b64decode(digest, validate=True)) == _SIZES.get(kind)
    except ValueError:
        return False


def _end(kind: str, least: tuple[int, int, int]) -> tuple[int, int, int]:
    """The first version that a range has not."""
    major, minor, patch = least
    if kind == "~":
        return major, minor + 1, 0
    if major:
        return major + 1, 0, 0
    return (0, minor + 1, 0) if minor else (0, 0, patch + 1)
