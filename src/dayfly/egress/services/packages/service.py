"""Requests for packages: only reading, only what the rule lists, and the same index for everything.

A name that is not listed is refused before the index is asked: a list of names that somebody else's server has seen would
be a way out. What is listed and not at the index is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Body, Refused, Request, Response, Upstreams, once
from dayfly.egress.services.packages import node, python
from dayfly.egress.services.packages.denying import not_listed, refused
from dayfly.egress.services.packages.digests import Digests, verified
from dayfly.egress.services.packages.index import BadUrl, Index, NotThere
from dayfly.egress.services.packages.kept import Kept
from dayfly.egress.services.packages.pages import JSON
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from dayfly.limits import Unfit
from dayfly.network import PackageKind, PackagesRule
from dayfly.network.entries import NodeEntry, PythonEntry, node_entry, node_name, python_entry, python_name
from dayfly.urls import BadPath, canonical_path

__all__ = ["PackagesService"]

_ESCAPED_SLASH = re.compile(r"(/node/@[^/%]{1,214})%2[fF]")
"""How npm writes the name of a package with a scope."""

_HTML, _OCTETS = "text/html; charset=utf-8", "application/octet-stream"
_EXPLAINED_TO = re.compile(r"(?:pip|uv)/")

E = TypeVar("E", PythonEntry, NodeEntry)


class PackagesService:
    """Of one connection. ``index``: the rule's, in the policy, which has one for packages. See ``Service``."""

    raw_paths = True

    def __init__(
        self, rule: PackagesRule, index: int, terms: Terms, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._rule = rule
        self._number = index
        self._python_entries = _by_name(map(python_entry, rule.packages.python))
        self._node_entries = _by_name(map(node_entry, rule.packages.node))
        self._indexes = terms.indexes
        self._now = now
        self._kept = Kept()
        self._explain: str | None = None  # the project of a page that pip or uv has asked for last

    async def answer(self, request: Request, upstreams: Upstreams) -> Response:
        """Raises ``Refused``, ``Unreachable``."""
        self._explain = None
        kind, rest = _place(request)
        try:
            return await (self._python if kind == "python" else self._node)(rest, request, upstreams)
        except NotThere:
            return _said(404, f"The package index has no {rest[-1] if rest else 'such thing'}.", kind)

    def refusal(self, denied: Denied, status: int) -> Response:
        if self._explain is not None and status == 403:
            why = "refused.to" if self._explain in self._python_entries else "not.listed.for"
            page = python.explaining(self._explain, f"{why}.this.sandbox")
            return _made(python.project_page(page, as_json=True), JSON, None)
        return _said(status, f"{denied.reason} {denied.remedy}", "node", denied.code)

    # --- Python -------------------------------------------------------------------------------------------------------

    async def _python(self, path: list[str], request: Request, upstreams: Upstreams) -> Response:
        match path:
            case ["simple"]:
                as_json = _wants_json(request)
                return _made(python.root_page(sorted(self._python_entries), as_json), JSON if as_json else _HTML, None)
            case ["simple", name]:
                return await self._project(_spelt("python", name), request, upstreams)
            case ["files", name, file]:
                return await self._file(_spelt("python", name), file, request, upstreams)
        raise _no_place()

    async def _project(self, name: str, request: Request, upstreams: Upstreams) -> Response:
        as_json = _wants_json(request)
        if as_json and _EXPLAINED_TO.match(request.header("user-agent") or ""):
            self._explain = name
        page = await self._page(name, upstreams)
        if page.why is not None:
            raise page.why
        return _made(await python.written(page, as_json), JSON if as_json else _HTML, self._number)

    async def _file(self, name: str, file: str, request: Request, upstreams: Upstreams) -> Response:
        page = await self._page(name, upstreams)
        beside = file.removesuffix(".metadata")
        found = page.file(beside)
        if beside != file and found.metadata is None:
            raise NotThere
        url, wanted = (found.url, found.digests) if beside == file else (f"{found.url}.metadata", found.metadata or {})
        return await self._sent("python", url, wanted, request, upstreams)

    async def _page(self, name: str, upstreams: Upstreams) -> python.Project:
        entries = self._python_entries.get(name)
        if entries is None:
            raise not_listed("python", name)
        page = self._kept.get(("python", name), python.Project)
        if page is None:
            rules = self._rule.packages
            page = await python.page_of(
                upstreams,
                self._index("python"),
                entries,
                wheels_only=rules.wheels_only,
                newest=python.newest_of(self._now(), rules.min_age),
            )
            self._kept.put(("python", name), page, page.size)
        return page

    # --- npm ----------------------------------------------------------------------------------------------------------

    async def _node(self, path: list[str], request: Request, upstreams: Upstreams) -> Response:
        match path:
            case [name] | [name, "-", _] if not name.startswith("@"):
                pass
            case [scope, plain] | [scope, plain, "-", _] if scope.startswith("@"):
                name = f"{scope}/{plain}"
            case _:
                raise _no_place()
        name = _spelt("node", name)
        entries = self._node_entries.get(name)
        if entries is None:
            raise not_listed("node", name)
        document = await self._document(entries, request, upstreams)
        if path[-2:-1] != ["-"]:
            kind = node.ABBREVIATED if _wants_short(request) else "application/json"
            return _made(document.content, kind, self._number)
        tarball = document.tarball(path[-1])
        return await self._sent("node", tarball.url, tarball.digests, request, upstreams)

    async def _document(self, entries: tuple[NodeEntry, ...], request: Request, upstreams: Upstreams) -> node.Document:
        name = entries[0].name
        short = _wants_short(request) or "/-/" in request.path
        document = self._kept.get(("short", name), node.Document) if short else None
        document = document or self._kept.get(("whole", name), node.Document)
        if document is None:
            document = await node.document_of(
                upstreams,
                self._index("node"),
                entries,
                newest=python.newest_of(self._now(), self._rule.packages.min_age),
                short=short,
            )
            self._kept.put(("short" if short else "whole", name), document, document.size)
        return document

    # --- both ---------------------------------------------------------------------------------------------------------

    def _index(self, kind: PackageKind) -> Index:
        """Raises ``Unreachable``."""
        url = self._indexes.get(kind)
        if url is None:
            raise Unreachable(f"The machine that the sandbox is on has no index of {kind} packages that it is set to.")
        try:
            return Index.of(url, self._rule.private)
        except BadUrl as error:
            raise Unreachable(
                f"The index of {kind} packages that the machine is set to cannot be used: {error}."
            ) from None

    async def _sent(
        self, kind: PackageKind, url: str, wanted: Digests, request: Request, upstreams: Upstreams
    ) -> Response:
        """Always all of it: of a part nobody could tell whether it is right."""
        if request.method == "HEAD":
            return Response(200, (("content-type", _OCTETS),), length=None, rule=self._number)
        _, response = await self._index(kind).get(upstreams, url)
        body: Body = verified(response.body, wanted)
        return Response(200, (("content-type", _OCTETS),), body, response.length, rule=self._number)


def _by_name(entries: Iterable[E]) -> dict[str, tuple[E, ...]]:
    found: dict[str, list[E]] = {}
    for one in entries:
        found.setdefault(one.name, []).append(one)
    return {name: tuple(ones) for name, ones in found.items()}


def _place(request: Request) -> tuple[PackageKind, list[str]]:
    """The index, and the path in it. Raises ``Refused``."""
    if request.method not in ("GET", "HEAD"):
        raise refused(
            f"Packages are read here, and {ascii(request.method[:20])[1:-1]} does something else.",
            "Install packages; nothing can be published or asked otherwise.",
            "request_not_listed",
        )
    try:
        path = canonical_path(_ESCAPED_SLASH.sub(r"\1/", request.path))
    except BadPath as error:
        raise refused(
            f"The request has a path that {error}.", "Send it as pip, uv and npm do.", "bad_request"
        ) from None
    first, *rest = path.strip("/").split("/")
    if first == "python":
        return "python", rest
    if first == "node":
        return "node", rest
    raise _no_place()


def _no_place() -> Refused:
    return refused(
        "There is no such place in the index of packages.",
        "Python packages are at /python/simple/NAME/, those of npm at /node/NAME.",
        "request_not_listed",
    )


def _spelt(kind: PackageKind, name: str) -> str:
    """Raises ``Refused``."""
    try:
        return python_name(name) if kind == "python" else node_name(name)
    except Unfit as error:
        raise refused(f"What was asked for is {error}.", "Ask for a package by its name.") from None


def _wants_json(request: Request) -> bool:
    accepted = ",".join(value for name, value in request.headers if name == "accept").lower()
    return JSON in accepted


def _wants_short(request: Request) -> bool:
    return node.ABBREVIATED in (request.header("accept") or "")


def _made(content: bytes, kind: str, rule: int | None) -> Response:
    headers = (("content-type", kind), ("cache-control", "no-store"), ("vary", "Accept"))
    return Response(200, headers, once(content), len(content), rule=rule)


def _said(status: int, text: str, kind: str, code: str = "") -> Response:
    """npm shows what is in ``error``; pip and uv show the reason phrase."""
    headers = [("content-type", "text/plain; charset=utf-8" if kind == "python" else "application/json")]
    if code:
        headers.append(("x-dayfly-denied", code))
    content = text.encode() + b"\n" if kind == "python" else json.dumps({"error": text}).encode()
    return Response(status, tuple(headers), once(content), len(content), reason=text)
