"""Python packages: a project's page as the sandbox sees it, and which file of it a download is."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from packaging.version import Version

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Refused, Upstreams
from dayfly.egress.services.packages.denying import refused
from dayfly.egress.services.packages.digests import Digests, digests_of_simple, matches
from dayfly.egress.services.packages.index import Index, turn
from dayfly.egress.services.packages.pages import JSON, BadPage, File, files_of
from dayfly.network.entries import PythonEntry

__all__ = ["Project", "explaining", "newest_of", "page_of", "project_page", "root_page", "written"]

_ASKED = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"


@dataclass(frozen=True)
class Project:
    """``files``: those that may be had. ``why``: where there are none, what is wrong with those that there are."""

    name: str
    files: tuple[File, ...]
    size: int = 0
    why: Refused | None = None

    def file(self, name: str) -> File:
        """Raises ``Refused``."""
        for one in self.files:
            if one.name == name:
                return one
        raise self.why or refused(
            f"{self.name} has no such file, or none that the rule lists.",
            "Install one of the versions that its page has.",
        )


async def page_of(
    upstreams: Upstreams, index: Index, entries: tuple[PythonEntry, ...], *, wheels_only: bool, newest: datetime | None
) -> Project:
    """``newest``: what was uploaded after it may not be had. Raises ``Unreachable``, ``Refused``, ``NotThere``."""
    name = entries[0].name
    try:
        async with turn():
            url, kind, content = await index.page(upstreams, index.below(name, ""), _ASKED)
            return await asyncio.to_thread(_project, url, kind, content, entries, wheels_only, newest)
    except BadPage:
        raise Unreachable(f"The package index answers nothing that lists files of {name}.") from None


def _project(
    url: str, kind: str, content: bytes, entries: tuple[PythonEntry, ...], wheels_only: bool, newest: datetime | None
) -> Project:
    """Raises ``BadPage``."""
    name = entries[0].name
    chosen, why = _chosen(files_of(name, url, kind, content), entries, wheels_only, newest)
    return Project(name, chosen, len(content), None if chosen else refused(f"{name}: {why}", _remedy(entries)))


def _chosen(
    files: tuple[File, ...], entries: tuple[PythonEntry, ...], wheels_only: bool, newest: datetime | None
) -> tuple[tuple[File, ...], str]:
    """Those that may be had; where there are none, what the last look has left out, as a sentence."""
    if not files:
        return (), "the index has no files of it."
    wheels = tuple(one for one in files if one.wheel or not wheels_only)
    if not wheels:
        return (), "it has no wheels, and the rule allows nothing else (wheels_only)."
    listed = tuple(filter(_on(entries), wheels))
    if not listed:
        return (), "the index has none of the versions, or none of the files, that the rule lists."
    if newest is None:
        return listed, ""
    timed = tuple(one for one in listed if one.uploaded is not None)
    if not timed:
        return (), "the index does not tell when its files were uploaded, and the rule asks for their age (min_age)."
    return tuple(
        one for one in timed if one.uploaded and one.uploaded <= newest
    ), "all that the rule lists is too new (min_age)."


def _on(entries: tuple[PythonEntry, ...]) -> Callable[[File], bool]:
    """Whether a file is on the list. Each version and each hash is read once, not for each of tens of thousands of files."""
    wanted = [(entry, digests_of_simple(map(_split, entry.hashes))) for entry in entries]

    @cache
    def having(version: Version) -> list[tuple[PythonEntry, Digests]]:
        return [one for one in wanted if one[0].has(version)]

    return lambda file: any(
        not entry.hashes or matches(digests, file.digests) for entry, digests in having(file.version)
    )


def _split(one: str) -> tuple[str, str]:
    kind, _, digits = one.partition(":")
    return kind, digits


def _remedy(entries: Iterable[PythonEntry]) -> str:
    return f"Use another package, or ask for another rule than: {'; '.join(map(_short, list(entries)[:4]))}."


def _short(entry: PythonEntry) -> str:
    return f"{entry.name}{entry.versions}" + (f" with {len(entry.hashes)} hashes" if entry.hashes else "")


def newest_of(now: datetime, days: int) -> datetime | None:
    return now - timedelta(days=days) if days else None


# --- pages for inside -------------------------------------------------------------------------------------------------


def root_page(names: Iterable[str], as_json: bool) -> bytes:
    """All projects that there are."""
    if as_json:
        return _dumped({"meta": {"api-version": "1.0"}, "projects": [{"name": one} for one in names]})
    return _html("Simple index", (f'<a href="/python/simple/{one}/">{one}</a>' for one in names))


async def written(project: Project, as_json: bool) -> bytes:
    """Its page, made elsewhere than in the loop's own thread: of 20,000 files that takes a quarter of a second."""
    async with turn():
        return await asyncio.to_thread(project_page, project, as_json)


def project_page(project: Project, as_json: bool) -> bytes:
    if not as_json:
        return _html(project.name, (_anchor(project.name, one) for one in project.files))
    sized = all(one.size is not None for one in project.files)
    versions = [str(one) for one in sorted({one.version for one in project.files})]
    head = {
        "meta": {"api-version": "1.1" if sized else "1.0"},
        "name": project.name,
        **({"versions": versions} if sized else {}),
    }
    # one by one: while json writes a whole page, no other thread runs
    files = b",".join([_dumped(_described(project.name, one)) for one in project.files])
    return b'%b,"files":[%b]}' % (_dumped(head).removesuffix(b"}"), files)


def explaining(name: str, label: str) -> Project:
    """What pip and uv are shown of a project that they are refused: of a page that is not there they say nothing. Of its one
    file they print the name, and why they do not get it. ``label``: words between dots."""
    version = Version(f"0+{label}")
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return Project(name, (File(file, "", version, wheel=True, digests={}),))


def _described(project: str, file: File) -> dict[str, Any]:
    found: dict[str, Any] = {
        "filename": file.name,
        "url": f"/python/files/{project}/{file.name}",
        "hashes": _hexadecimal(file.digests),
        "requires-python": file.requires_python,
        "yanked": False if file.yanked is None else file.yanked or True,
    }
    if file.metadata is not None:
        found["core-metadata"] = found["dist-info-metadata"] = _hexadecimal(file.metadata) or True
    if file.size is not None:
        found["size"] = file.size
    if file.uploaded is not None:
        found["upload-time"] = f"{file.uploaded:%Y-%m-%dT%H:%M:%SZ}"
    return found


def _anchor(project: str, file: File) -> str:
    digests = sorted(_hexadecimal(file.digests).items())
    attributes = {
        "href": f"/python/files/{project}/{file.name}" + "".join(f"#{kind}={digits}" for kind, digits in digests[:1])
    }
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    if file.metadata is not None:
        pairs = sorted(_hexadecimal(file.metadata).items())
        attributes["data-core-metadata"] = "=".join(pairs[0]) if pairs else "true"
    written = " ".join(f'{name}="{html.escape(value)}"' for name, value in attributes.items())
    return f"<a {written}>{file.name}</a>"


def _hexadecimal(digests: Any) -> dict[str, str]:
    return {kind: min(values).hex() for kind, values in digests.items()}


def _html(title: str, lines: Iterable[str]) -> bytes:
    head = f'<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0"><title>{title}</title></head><body>'
    return "\n".join([head, *(f"{line}<br>" for line in lines), "</body></html>\n"]).encode()


def _dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
