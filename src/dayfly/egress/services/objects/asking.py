"""From a request to what it asks for, and back: an operation, a bucket, keys. Only what is in that goes on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dayfly.egress.http.messages import Headers, Request
from dayfly.egress.services.objects.keys import BadSpelling, checked_key, escaped, unescaped
from dayfly.egress.services.objects.operations import (
    BODY_SUMS,
    COPY_SOURCE,
    META,
    OWN_HEADERS,
    PARAMETERS,
    Level,
    Operation,
    named,
)
from dayfly.network.objects import OBJECTS_HOST

__all__ = ["Asked", "BadRequest", "Unlisted", "asked", "bucket_of"]

LONGEST_QUERY = 8192
"""Characters, as of a path."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAME = re.compile(r"[A-Za-z-]{1,64}")
_VALUE = re.compile(r"[\x20-\x7e]{0,2048}")
_META_NAME = re.compile(r"x-amz-meta-[a-z0-9!#$&'*+.^_`|~-]{1,128}")


class Unlisted(Exception):
    """No operation that there is here, or one with more than it may have. ``str()`` is a sentence."""


class BadRequest(Exception):
    """Nothing that only one thing can be made of. ``str()`` is a sentence."""


@dataclass(frozen=True)
class Asked:
    """``key`` is ``""`` where the operation is about a bucket. ``query`` and ``headers`` are those that are sent on; ``source``: the
    bucket and key that are copied from."""

    operation: Operation
    bucket: str = ""
    key: str = ""
    query: tuple[tuple[str, str], ...] = ()
    headers: Headers = ()
    source: tuple[str, str] | None = None

    @property
    def prefix(self) -> str:
        """What keys begin with that this is about."""
        return dict(self.query).get("prefix", "") if self.operation.level == "bucket" else self.key

    def request(self) -> Request:
        """By path, unsigned, and without a body."""
        path = f"/{self.bucket}" + (f"/{escaped(self.key, '/')}" if self.key else "") if self.bucket else "/"
        query = "&".join(f"{name}={escaped(value)}" for name, value in sorted(self.query))
        headers = self.headers
        if self.source is not None:
            headers = (*headers, (COPY_SOURCE, f"/{self.source[0]}/{escaped(self.source[1], '/')}"))
        return Request(self.operation.method, path, query, headers)


def bucket_of(host: str) -> str:
    """That a connection's name says; ``""``: the path does. ``host`` is one of the rules' places."""
    return host.removesuffix(OBJECTS_HOST).removesuffix(".")


def asked(host: str, request: Request) -> Asked:
    """Raises ``Unlisted`` and ``BadRequest``."""
    bucket, key = _place(bucket_of(host), request.path)
    query = _query(request.query)
    level: Level = "object" if key else "bucket" if bucket else "service"
    source = request.header(COPY_SOURCE)
    operation = named(request.method, level, [name for name, _ in query if name != "x-id"], source is not None)
    if operation is None:
        raise Unlisted(_unknown(request.method, level, query))
    found = Asked(operation, bucket, key, _parameters(operation, query), _headers(operation, request.headers))
    if level == "bucket":
        _spelled(found.prefix, "the prefix")
    return found if source is None else replace(found, source=_source(source))


def _place(bucket: str, path: str) -> tuple[str, str]:
    """Bucket and key, either perhaps empty."""
    rest = path[1:]
    if not bucket:
        bucket, _, rest = rest.partition("/")
    if (bucket or rest) and not _BUCKET.fullmatch(bucket):
        raise BadRequest("What is in the place of the bucket is no bucket's name.")
    try:
        return bucket, checked_key(unescaped(rest))
    except BadSpelling as error:
        raise BadRequest(f"The key {error}.") from None


def _spelled(key: str, what: str) -> str:
    try:
        return checked_key(key)
    except BadSpelling as error:
        raise BadRequest(f"{what.capitalize()} {error}.") from None


def _query(text: str) -> tuple[tuple[str, str], ...]:
    """In its order. Each name is there once."""
    if len(text) > LONGEST_QUERY:
        raise BadRequest(f"The query is longer than {LONGEST_QUERY} characters.")
    found: dict[str, str] = {}
    for part in text.split("&") if text else ():
        name, _, value = part.partition("=")
        if not _NAME.fullmatch(name):
            raise Unlisted("The query has a parameter that no operation has here.")
        if name in found:
            raise BadRequest(f"The query has {name} twice.")
        try:
            found[name] = unescaped(value)
        except BadSpelling as error:
            raise BadRequest(f"The value of {name} in the query {error}.") from None
    return tuple(found.items())


def _unknown(method: str, level: str, query: tuple[tuple[str, str], ...]) -> str:
    names = sorted(name for name, _ in query)
    told = f" with {', '.join(names[:5])}" if names else ""
    method = method if method in ("GET", "HEAD", "PUT", "POST", "DELETE") else "This method"
    return f"{method} of {'an' if level == 'object' else 'a'} {level}{told} is no operation that is passed on here."


def _parameters(operation: Operation, query: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    for name, value in query:
        if name == "x-id":  # in which newer SDKs repeat what they do
            if value != operation.name:
                raise Unlisted(f"The request says in x-id that it is something else than {operation.name}.")
        elif not PARAMETERS[name].fullmatch(value):
            raise Unlisted(f"{operation.name} is not passed on with this value of {name}.")
    return tuple(sorted((name, value) for name, value in query if name != "x-id"))


def _headers(operation: Operation, headers: Headers) -> Headers:
    known = dict(operation.headers)
    found: dict[str, str] = {}
    for name, value in headers:
        if name in OWN_HEADERS or (operation.body == "keys" and name in BODY_SUMS):
            continue
        is_meta = operation.meta and name.startswith(META)
        if name not in known and not is_meta:
            if name.startswith("x-amz-"):
                raise Unlisted(f"{operation.name} is not passed on with the header {_shown(name)}.")
            continue
        value = _value(operation, name, value)
        if name in found:
            raise BadRequest(f"The header {_shown(name)} is there twice.")
        if value:
            found[name] = value
    return tuple(sorted(found.items()))


def _value(operation: Operation, name: str, value: str) -> str:
    value = value.strip(" \t")
    if name == "content-encoding":
        value = ",".join(one.strip() for one in value.split(",") if one.strip().lower() not in ("aws-chunked", ""))
    pattern = dict(operation.headers).get(name, _VALUE)
    if value and not (pattern.fullmatch(value) and _VALUE.fullmatch(value)):
        raise Unlisted(f"{operation.name} is not passed on with this value of the header {_shown(name)}.")
    if name.startswith(META) and not _META_NAME.fullmatch(name):
        raise BadRequest("A header of metadata has a name that not everybody reads in the same way.")
    return value


def _source(text: str) -> tuple[str, str]:
    """``/BUCKET/KEY``, with or without its first slash, percent-encoded. Raises ``BadRequest`` and ``Unlisted``."""
    plain, mark, _ = text.strip(" \t").partition("?")
    if mark:
        raise Unlisted("Versions of objects are not copied here.")
    try:
        bucket, _, key = unescaped(plain).removeprefix("/").partition("/")
        if not _BUCKET.fullmatch(bucket) or not key:
            raise BadSpelling("is not BUCKET/KEY")
        return bucket, checked_key(key)
    except BadSpelling as error:
        raise BadRequest(f"What is to be copied {error}.") from None


def _shown(name: str) -> str:
    return f"{name!a:.60}"
