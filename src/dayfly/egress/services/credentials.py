"""A request with the rule's secret in it, and without what the code had put in its place: pure.

The code's own credentials are taken out so that a request is what the rule says, and nobody's who has an account there, too.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from urllib.parse import quote, unquote_to_bytes

from dayfly.egress.http.messages import Headers, Request
from dayfly.egress.services.judgement import same_header
from dayfly.network import Inject

__all__ = ["fits", "with_secret"]

_LINE = re.compile(r"[\x21-\x7e]+(?: +[\x21-\x7e]+)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PAIR = re.compile(r"[^&;]*[&;]|[^&;]+")  # some servers take a semicolon for an ampersand
_UNSEEN = re.compile(r"[\x00-\x20]")
_SEPARATORS = re.compile(r"[-. ]")

_BEARER_PARAMETER = "access_token"
"""RFC 6750, 2.3: the same credential as a parameter, which may not be there twice."""


def fits(inject: Inject, value: str) -> bool:
    """Whether it can be sent so. The store has looked at that; what does not fit would be another request."""
    if inject.into == "basic":
        return ":" in value and not _CONTROL.search(value)
    if inject.into == "query":
        return bool(value) and not _CONTROL.search(value)
    return bool(_LINE.fullmatch(value))


def with_secret(request: Request, inject: Inject, value: str) -> Request:
    """``value`` must fit."""
    if inject.into == "query":
        name = inject.name or ""
        kept = _without_parameter(request.query, name)
        return replace(request, query=f"{kept}&{name}={_escaped(value)}" if kept else f"{name}={_escaped(value)}")
    name, text = _header(inject, value)
    query = _without_parameter(request.query, _BEARER_PARAMETER) if inject.into == "bearer" else request.query
    return replace(request, query=query, headers=(*_without_header(request.headers, name), (name, text)))


def _header(inject: Inject, value: str) -> tuple[str, str]:
    if inject.into == "bearer":
        return "authorization", f"Bearer {value}"
    if inject.into == "basic":
        return "authorization", "Basic " + b64encode(value.encode()).decode("ascii")
    return (inject.name or "").lower(), value


def _escaped(value: str) -> str:
    return quote(value, safe="")


def _without_header(headers: Headers, name: str) -> Headers:
    """Also in the spelling with ``_``, under which some servers know it too."""
    return tuple(one for one in headers if same_header(one[0]) != same_header(name))


def _without_parameter(query: str, name: str) -> str:
    """All others stay as they were written."""
    wanted = _as_servers_read(name)
    pairs = _PAIR.findall(query)
    kept = [one for one in pairs if _as_servers_read(one.rstrip("&;").partition("=")[0]) != wanted]
    return query if len(kept) == len(pairs) else "".join(kept).rstrip("&;")


def _as_servers_read(name: str) -> str:
    """Without case, escapes, arrays (``key[]``) and marks that one or the other framework makes nothing of."""
    text = unquote_to_bytes(name.replace("+", " ")).decode("latin-1").lower().strip("\0 \t\r\n")
    plain = text if text.startswith("[") else text.partition("[")[0]
    return _UNSEEN.sub("", _SEPARATORS.sub("_", plain))
