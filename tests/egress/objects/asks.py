"""Requests as clients write them, and the service without a store."""

from __future__ import annotations

from dayfly.egress.http.messages import Body, Headers, Refused, Request, nothing, once
from dayfly.egress.services.objects.service import ObjectsService
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from dayfly.network import ObjectsRule
from dayfly.network.objects import OBJECTS_HOST
from tests.egress.objects.adapter import Script

__all__ = ["ask", "denied", "rule", "service"]


def rule(**objects: object) -> ObjectsRule:
    given = {"bucket": "lake", "prefix": "data/", "endpoint": "https://store.example", "credentials": "key", **objects}
    return ObjectsRule(objects=given)


READ = rule()
WRITE = rule(prefix="out/", access=["read", "write", "list"], credentials="other-key")


def service(*rules: ObjectsRule, host: str = OBJECTS_HOST, secrets: dict[str, str] | None = None) -> ObjectsService:
    """With rules of every second index."""
    known = {"key": "AKID:sec/ret+", "other-key": "AKIE:secret:token=="} if secrets is None else secrets
    return ObjectsService(host, [(2 * at, one) for at, one in enumerate(rules or (READ, WRITE))], Terms(secrets=known))


def ask(line: str, body: bytes = b"", **headers: str) -> Request:
    """``line``: ``METHOD PATH?QUERY``. In names of headers an underscore stands for a hyphen."""
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    found: Headers = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    stream: Body = once(body) if body else nothing()
    return Request(method, path, query, found, stream, len(body))


async def denied(line: str, body: bytes = b"", *, by: ObjectsService | None = None, **headers: str) -> Denied:
    """Why it is refused. Nothing of it has been sent."""
    script = Script()
    try:
        await (by or service()).answer(ask(line, body, **headers), script)
    except Refused as refused:
        assert script.sent == []
        return refused.denied
    raise AssertionError(f"{line} was allowed")
