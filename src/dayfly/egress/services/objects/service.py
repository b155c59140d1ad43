"""Requests of one connection to the object store: judged, signed anew, passed on. What goes out is made of what was judged, and the
sandbox's own signature, which is made with nobody's credentials, is not even looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Body, Origin, Refused, Request, Response, Upstreams, closed, nothing, once
from dayfly.egress.services.objects import answers
from dayfly.egress.services.objects.asking import Asked, BadRequest, Unlisted, asked
from dayfly.egress.services.objects.bodies import Outgoing, outgoing
from dayfly.egress.services.objects.chunks import BadChunks
from dayfly.egress.services.objects.documents import BadDocument, collected
from dayfly.egress.services.objects.rules import Numbered, ObjectsRules
from dayfly.egress.services.objects.signing import BadCredentials, Credentials, credentials, signed
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied

__all__ = ["ObjectsService"]

_PORT = 80
_SHOWN = 100
_NO_CONTENT = frozenset({204, 304})


class ObjectsService:
    """``host``: the connection's, one of the rules' places. ``rules``: all of the sandbox's that are for objects, with their
    indexes, in their order."""

    raw_paths = False

    def __init__(self, host: str, rules: Sequence[Numbered], terms: Terms) -> None:
        self._host = host
        self._rules = ObjectsRules(rules)
        self._secrets = terms.secrets

    async def answer(self, request: Request, upstreams: Upstreams) -> Response:
        try:
            what = asked(self._host, request)
            if what.operation.access is None:
                return self._here(what)
            going = await outgoing(what, request)
            return await self._passed_on(what, going, upstreams)
        except Unlisted as error:
            raise Refused(self._denied("object_not_listed", str(error), self._ask())) from None
        except (BadRequest, BadChunks) as error:
            raise self._bad(error) from None

    def refusal(self, denied: Denied, status: int) -> Response:
        """As S3 says it. A server of HTTP leaves the body out where ``HEAD`` was asked."""
        code = {400: "InvalidRequest", 429: "SlowDown"}.get(status, "AccessDenied")
        made = answers.error(status, code, f"{denied.reason} {denied.remedy}")
        return replace(made, headers=(*made.headers, ("x-dayfly-denied", denied.code)))

    # --- judging ----------------------------------------------------------------------------------------------------

    def _here(self, what: Asked) -> Response:
        """What needs no store: a sandbox's buckets are those of its rules."""
        if what.operation.name == "ListBuckets":
            return replace(answers.buckets(self._rules.buckets), rule=self._rules.first[0])
        found = self._rules.of_bucket(what.bucket)
        if found is None:
            raise self._unlisted(what, ("",))
        index, rule = found
        region = rule.objects.region
        made = answers.location(region) if what.operation.name == "GetBucketLocation" else answers.there(region)
        return replace(made, rule=index)

    async def _passed_on(self, what: Asked, going: Outgoing, upstreams: Upstreams) -> Response:
        found = self._rules.allowing(what, going.keys)
        if found is None:
            if what.operation.name == "HeadObject" and (directory := self._rules.directory(what.bucket, what.key)):
                return Response(404, rule=directory[0])
            raise self._unlisted(what, going.keys)
        index, rule = found
        one = rule.objects
        who = self._credentials(one.credentials, one.host)
        origin = Origin(one.scheme, one.host, one.port, rule.private)
        bare = what.request()
        bare = replace(bare, headers=(*bare.headers, *going.headers), length=going.length)
        bare = replace(bare, body=self._told(going.body) if going.length else nothing())
        ready = signed(bare, origin, one.region, who, going.digest)
        ready = replace(ready, headers=(*ready.headers, ("accept-encoding", "identity"), ("user-agent", "dayfly")))
        try:
            answer = await _answered(what, await upstreams.send(origin, ready), who)
        except Unreachable as error:
            answer = _unreachable(str(error))
        return replace(answer, rule=index, secret=one.credentials)

    def _credentials(self, name: str, host: str) -> Credentials:
        try:
            return credentials(self._secrets[name])
        except KeyError:
            reason = f"The secret {name}, which this rule needs, is not there, or is not for {host}."
        except BadCredentials:
            reason = f"The secret {name} is no KEY_ID:SECRET."
        remedy = "Whoever runs the sandboxes can store it (dayfly secrets set), for the host of the object store."
        raise Refused(self._denied("no_secret", reason, remedy)) from None

    async def _told(self, body: Body) -> AsyncIterator[bytes]:
        """Whoever sends a body meets what is wrong with it: as what the sandbox is told."""
        try:
            async for piece in body:
                yield piece
        except BadChunks as error:
            raise self._bad(error) from None

    # --- refusing ---------------------------------------------------------------------------------------------------

    def _denied(self, code: str, reason: str, remedy: str) -> Denied:
        return Denied(self._host, _PORT, code, reason, remedy)

    def _bad(self, error: Exception) -> Refused:
        reason = f"The body {error}." if isinstance(error, BadChunks) else str(error)
        return Refused(self._denied("bad_request", reason, "Send it as the AWS SDKs do, with plain keys."))

    def _unlisted(self, what: Asked, keys: Sequence[str]) -> Refused:
        place = f"s3://{what.bucket}/{next(iter(keys), '')}"
        source = f" from s3://{what.source[0]}/{what.source[1]}" if what.source else ""
        reason = f"No rule of this sandbox allows {what.operation.name} for {_quoted(place + source)}."
        return Refused(self._denied("object_not_listed", reason, self._ask()))

    def _ask(self) -> str:
        return f"Allowed is: {self._rules.told}. Use that, or ask for a rule."


def _quoted(text: str) -> str:
    shown = ascii(text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown[:-1]}...'"


def _unreachable(why: str) -> Response:
    """In a form that clients show."""
    made = answers.error(502, "ServiceUnavailable", f"The object store was not reached: {why}")
    return replace(made, headers=(*made.headers, ("x-dayfly-unreachable", "1")))


async def _answered(what: Asked, response: Response, who: Credentials) -> Response:
    hidden = [who.access_key, *([who.token] if who.token else [])]
    if response.status == 200 and what.operation.name in answers.REPORTS:
        return await _reported(response, hidden)
    if 200 <= response.status < 300 or response.status == 304:
        kept = replace(response, headers=answers.passed(response.headers))
        return replace(kept, length=0) if response.status in _NO_CONTENT else kept
    body = await _beginning(response.body)
    if what.operation.method == "HEAD":
        status = 400 if 300 <= response.status < 400 else response.status
        return Response(status, answers.passed(response.headers))
    return answers.explained(response.status, body, hidden)


async def _reported(response: Response, hidden: list[str]) -> Response:
    try:
        made = answers.reported(await collected(response.body), hidden)
    except BadDocument as error:
        return answers.error(502, "InternalError", f"What the object store answered {error}.")
    finally:
        await closed(response.body)
    return replace(response, headers=answers.passed(response.headers), body=once(made), length=len(made))


async def _beginning(body: Body) -> bytes:
    """Of an error: the rest is nobody's."""
    found = bytearray()
    try:
        async for piece in body:
            found += piece
            if len(found) >= answers.LONGEST_ERROR:
                break
    finally:
        await closed(body)
    return bytes(found)
