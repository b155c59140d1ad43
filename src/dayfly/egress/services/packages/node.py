"""npm packages: a package's document as the sandbox sees it, and which file of it a download is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Refused, Upstreams
from dayfly.egress.services.packages.denying import refused
from dayfly.egress.services.packages.digests import Digests, digests_of_integrity, matches
from dayfly.egress.services.packages.index import Index, turn
from dayfly.network import PACKAGES_HOST
from dayfly.network.entries import NodeEntry, semver

__all__ = ["ABBREVIATED", "Document", "document_of"]

ABBREVIATED = "application/vnd.npm.install-v1+json"

MOST_VERSIONS = 20_000
"""Of one package. The largest have 5,000."""

_MOST_HASHES = 16
"""Of one file, in its document. There are one or two."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z", re.ASCII)


@dataclass(frozen=True)
class Tarball:
    """``url`` is not to be trusted."""

    url: str
    digests: Digests


@dataclass(frozen=True)
class Document:
    """``tarballs`` by version: those that may be had. ``content``: JSON for inside."""

    name: str
    tarballs: Mapping[str, Tarball]
    content: bytes
    size: int

    def tarball(self, file: str) -> Tarball:
        """By its name, ``name-1.2.3.tgz``. Raises ``Refused``."""
        version = file.removesuffix(".tgz").removeprefix(_plain(self.name) + "-")
        found = self.tarballs.get(version)
        if found is None or file != f"{_plain(self.name)}-{version}.tgz":
            raise refused(
                f"{self.name} has no such file, or none that the rule lists.",
                "Install one of the versions that it has.",
            )
        return found


async def document_of(
    upstreams: Upstreams, index: Index, entries: tuple[NodeEntry, ...], *, newest: datetime | None, short: bool
) -> Document:
    """``newest``: what was published after it may not be had. ``short``: the form for installing is enough. Raises
    ``Unreachable``, ``Refused``, ``NotThere``."""
    name = entries[0].name
    accept = f"{ABBREVIATED}, application/json;q=0.8" if short and newest is None else "application/json"
    async with turn():
        _, _, content = await index.page(upstreams, index.below(name), accept)
        return await asyncio.to_thread(_document, name, content, entries, newest)


def _document(name: str, content: bytes, entries: tuple[NodeEntry, ...], newest: datetime | None) -> Document:
    try:
        told = json.loads(content)
        versions = told["versions"]
    except (ValueError, RecursionError, LookupError, TypeError):
        versions = None
    if not isinstance(versions, dict) or told.get("name") != name:
        raise Unreachable(f"The package index answers nothing that is a document of {name}.")
    times = _object(told, "time")
    tarballs, manifests = _chosen(name, versions, entries)
    if not manifests:
        raise _nothing(name, "the index has none of the versions, or none of the files, that the rule lists.", entries)
    if newest is not None:
        manifests = {one: manifest for one, manifest in manifests.items() if _is_old(times.get(one), newest)}
    if not manifests:
        raise _nothing(name, "all that the rule lists is too new, or its age is not told (min_age).", entries)
    try:
        made = _made(told, manifests, times)
    except RecursionError:  # it could just be read, and is two levels deeper now
        raise Unreachable(f"The package index answers a document of {name} that is nested too deep.") from None
    return Document(name, {one: tarballs[one] for one in manifests}, made, len(content))


def _chosen(
    name: str, versions: Mapping[str, Any], entries: tuple[NodeEntry, ...]
) -> tuple[dict[str, Tarball], dict[str, dict[str, Any]]]:
    tarballs: dict[str, Tarball] = {}
    manifests: dict[str, dict[str, Any]] = {}
    wanted = [(entry, digests_of_integrity(entry.hashes)) for entry in entries]
    for version, manifest in list(versions.items())[:MOST_VERSIONS]:
        tarball = _tarball(manifest) if semver(version) else None
        if tarball is not None and any(_lists(*one, version, tarball) for one in wanted):
            tarballs[version] = tarball
            manifests[version] = _rewritten(name, version, manifest)
    return tarballs, manifests


def _lists(entry: NodeEntry, digests: Digests, version: str, tarball: Tarball) -> bool:
    return entry.has(version) and (not entry.hashes or matches(digests, tarball.digests))


def _tarball(manifest: object) -> Tarball | None:
    dist = manifest.get("dist") if isinstance(manifest, dict) else None
    if not isinstance(dist, dict) or not isinstance(dist.get("tarball"), str):
        return None
    integrity, sha1 = dist.get("integrity", ""), dist.get("shasum", "")
    if not isinstance(integrity, str) or not isinstance(sha1, str):
        return None
    return Tarball(dist["tarball"], digests_of_integrity(integrity.split()[:_MOST_HASHES], sha1))


def _rewritten(name: str, version: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """As it is, and from here."""
    url = f"http://{PACKAGES_HOST}/node/{name}/-/{_plain(name)}-{version}.tgz"
    return {**manifest, "name": name, "version": version, "dist": {**manifest["dist"], "tarball": url}}


def _made(told: Mapping[str, Any], manifests: Mapping[str, Any], times: Mapping[str, Any]) -> bytes:
    kept = {
        tag: version
        for tag, version in _object(told, "dist-tags").items()
        if isinstance(version, str) and version in manifests
    }
    kept.setdefault("latest", max(manifests, key=_order))
    made: dict[str, Any] = {"name": told["name"], "dist-tags": kept, "versions": manifests}
    if isinstance(told.get("modified"), str):
        made["modified"] = told["modified"]
    if times:
        made["time"] = {one: time for one, time in times.items() if one in manifests or one in ("created", "modified")}
    return json.dumps(made, separators=(",", ":")).encode()


def _object(told: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What is no object is an empty one."""
    found = told.get(key)
    return found if isinstance(found, dict) else {}


def _order(version: str) -> tuple[bool, tuple[int, int, int]]:
    """Releases come after what came before them."""
    return "-" not in version, semver(version) or (0, 0, 0)


def _is_old(time: object, newest: datetime) -> bool:
    match = _TIME.fullmatch(time) if isinstance(time, str) else None
    try:
        return match is not None and datetime.fromisoformat(match[1]).replace(tzinfo=UTC) <= newest
    except ValueError:
        return False


def _plain(name: str) -> str:
    """Without its scope."""
    return name.rpartition("/")[2]


def _nothing(name: str, why: str, entries: tuple[NodeEntry, ...]) -> Refused:
    listed = "; ".join(str(one).partition(" ")[0] for one in entries[:4])
    return refused(f"{name}: {why}", f"Use another package, or ask for another rule than: {listed}.")
