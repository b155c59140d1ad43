"""What a host rule says of one request: pure. Whatever could make a server take it for another request is refused with it.

A path is compared in its one spelling (``dayfly.urls``), and where a server might resolve escapes twice, in what that gives, too. Names of
headers are compared with ``_`` as ``-``: many servers hand both to programs under one name.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

from dayfly.egress.http.messages import Request
from dayfly.egress.verdict import Denied
from dayfly.network import Rule
from dayfly.urls import climbs

__all__ = ["is_below", "judge", "same_header"]

_OVERRIDES = {
    "x-http-method": "method",
    "x-http-method-override": "method",
    "x-method-override": "method",
    "x-original-method": "method",
    "x-forwarded-method": "method",
    "destination": "path",  # of COPY and MOVE (RFC 4918)
    "x-envoy-original-path": "path",
    "x-original-path": "path",
    "x-override-url": "path",
    "x-original-uri": "path",
    "x-original-url": "path",
    "x-rewrite-url": "path",
    "x-forwarded-path": "path",
    "x-forwarded-prefix": "path",
    "x-forwarded-uri": "path",
    "forwarded": "host",
    "x-forwarded-host": "host",
    "x-forwarded-server": "host",
    "x-host": "host",
    "x-http-host-override": "host",
    "x-original-host": "host",
}
"""Headers that tell servers behind a proxy what was asked for, and what they say."""

_METHOD_PARAMETER = "_method"
"""Of a query, by which frameworks take a POST for another method. In a body it is not seen."""

_SENDS_BACK = frozenset({"TRACE", "TRACK"})

_MOST_LAYERS = 8  # of escapes in escapes
_MOST_TOLD = 5
_SHOWN = 80


def judge(rule: Rule, request: Request, host: str, port: int) -> Denied | None:
    """Why it may not be sent to ``host``, which the rule names; ``None``: it may. ``request.path`` is canonical."""
    reason, remedy = next(_objections(rule, request, host), (None, ""))
    return None if reason is None else Denied(host, port, "request_not_listed", reason, remedy)


def is_below(pattern: str, path: str) -> bool:
    """Whether a pattern of a rule stands for the path: ``/v1/*`` for ``/v1/`` and all below it, and not for ``/v1``."""
    return path.startswith(pattern[:-1]) if pattern.endswith("/*") else path == pattern


def same_header(name: str) -> str:
    """The spelling by which names of headers are compared."""
    return name.lower().replace("_", "-")


def _objections(rule: Rule, request: Request, host: str) -> Iterator[tuple[str, str]]:
    method = request.method.upper()  # there are servers to which that is the same
    if method == "CONNECT" or (rule.inject and method in _SENDS_BACK):
        yield f"{request.method} is passed to no host whose requests are looked at.", "Use another method."
    if rule.methods is not None and request.method not in rule.methods:
        yield _not_listed(rule, request, host), _remedy(rule, f"methods = [..., '{_shown(request.method)}']")
    if rule.paths is not None and not _is_listed(rule.paths, request.path):
        yield _not_listed(rule, request, host), _remedy(rule, f"paths = [..., '{_shown(request.path)}']")
    seen = {"method": rule.methods is not None, "path": rule.paths is not None, "host": True}
    for name, _ in request.headers:
        what = _OVERRIDES.get(same_header(name))
        if what is not None and seen[what]:
            yield f"The header {same_header(name)} tells servers of another {what} than the request's.", "Leave it out."
    if rule.methods is not None and any(name == _METHOD_PARAMETER for name in _parameters(request.query)):
        yield "The parameter _method tells servers of another method than the request's.", "Leave it out."


def _is_listed(patterns: tuple[str, ...], path: str) -> bool:
    if not any(is_below(one, path) for one in patterns):
        return False
    if "%25" not in path:
        return True
    plain = _resolved(path)
    return plain is not None and any(is_below(_resolved(one) or one, plain) for one in patterns)


def _resolved(path: str) -> str | None:
    """What a server makes of it that resolves escapes until there are none; ``None`` where that is no path."""
    for _ in range(_MOST_LAYERS):
        before, path = path, unquote(path)
        if before == path:
            segments = path.replace("\\", "/").split("/")
            return None if any(map(climbs, segments)) else path
    return None


def _parameters(query: str) -> Iterator[str]:
    for pair in query.replace(";", "&").split("&"):
        yield unquote_plus(pair.partition("=")[0]).strip().lower()


def _not_listed(rule: Rule, request: Request, host: str) -> str:
    asked = f"{_shown(request.method)} {_shown(request.path)}"
    return f"The network policy allows {_allowed(rule)} on {host}, and this was {asked}."


def _remedy(rule: Rule, wanted: str) -> str:
    return f"Use {_allowed(rule)}, or ask for a rule with {wanted}."


def _allowed(rule: Rule) -> str:
    methods = _told(rule.methods) if rule.methods else "any method"
    return f"{methods} at {_told(rule.paths)}" if rule.paths else methods


def _told(what: tuple[str, ...]) -> str:
    more = f" and {len(what) - _MOST_TOLD} more" if len(what) > _MOST_TOLD else ""
    return ", ".join(_shown(one) for one in what[:_MOST_TOLD]) + more


def _shown(text: str) -> str:
    plain = ascii(text[: _SHOWN + 1])[1:-1]
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "..."
