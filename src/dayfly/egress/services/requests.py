"""Requests to the host of a rule: those that it allows go on, with its secret; answers come back, where it says so, without."""

from __future__ import annotations

from dataclasses import replace

from pydantic import SecretStr

from dayfly.egress.http.messages import Headers, Origin, Refused, Request, Response, Upstreams, once
from dayfly.egress.services.credentials import fits, with_secret
from dayfly.egress.services.judgement import judge, same_header
from dayfly.egress.services.redaction import Cleaned, Spellings
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from dayfly.network import Inject, Rule

__all__ = ["HostRequests"]

OURS = "x-dayfly-"
"""Headers that only the gateway sends: what a server says is never taken for a denial."""

DENIED = OURS + "denied"
"""Of a refusal: its code."""

_WHOLE_AND_PLAIN = frozenset({"accept-encoding", "range", "if-range", "a-im"})
"""Headers of requests that ask for something else than the whole text: half a secret is not found."""

_DIGESTS = frozenset({"content-md5", "digest", "content-digest", "repr-digest"})
"""Headers of answers that are about the bytes before something was taken out."""

_NO_BODY = frozenset({204, 304})
_PARTS = frozenset({206, 226})


class HostRequests:
    """A ``Service`` of ``egress.http.messages``, of one connection to ``host``, which the rule names."""

    raw_paths = False

    def __init__(self, rule: Rule, index: int, host: str, port: int, secret: SecretStr | None) -> None:
        """``secret``: the value of what the rule injects."""
        self._rule = rule
        self._index = index
        self._secret = secret
        self._origin = Origin("http" if rule.protocol == "http" else "https", host, port, rule.private)
        self._spellings = _spellings(rule.inject, secret)

    def __repr__(self) -> str:
        return f"<HostRequests: rule {self._index}, {self._origin.host}>"

    @classmethod
    def of(cls, terms: Terms, index: int, host: str, port: int) -> HostRequests:
        """``index`` is that of a host rule; ``host`` and ``port`` are as they were judged."""
        rule = terms.rules[index]
        if not isinstance(rule, Rule):
            raise TypeError(f"rule {index} is for no host")
        value = terms.secrets.get(rule.inject.secret) if rule.inject else None
        return cls(rule, index, host, port, None if value is None else SecretStr(value))

    async def answer(self, request: Request, upstreams: Upstreams) -> Response:
        """Raises ``Refused``, and what ``upstreams.send`` does."""
        denied = judge(self._rule, request, self._origin.host, self._origin.port)
        if denied is not None:
            raise Refused(denied)
        response = await upstreams.send(self._origin, self._outgoing(request))
        return await self._incoming(request.method, response)

    def refusal(self, denied: Denied, status: int) -> Response:
        text = f"{denied.reason} {denied.remedy}\n".encode()
        headers = (("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store"), (DENIED, denied.code))
        return Response(status, headers, once(text), len(text))

    def _outgoing(self, request: Request) -> Request:
        """Raises ``Refused``."""
        inject = self._rule.inject
        headers = _without_ours(request.headers)
        if inject is None:
            return replace(request, headers=headers)
        if inject.redact:
            kept = (one for one in headers if same_header(one[0]) not in _WHOLE_AND_PLAIN)
            headers = (*kept, ("accept-encoding", "identity"))
        return with_secret(replace(request, headers=headers), inject, self._usable(inject))

    def _usable(self, inject: Inject) -> str:
        """The value, which goes over verified TLS only. Raises ``Refused``."""
        value = self._secret.get_secret_value() if self._secret is not None else ""
        found = self._spellings is None or self._spellings.usable
        if self._origin.scheme != "https" or not fits(inject, value) or not found:
            raise self._refused(
                "no_secret",
                f"The secret {inject.secret} that requests to {self._origin.host} are sent with is not there.",
                "Tell whoever runs the sandboxes: nothing inside can change that.",
            )
        return value

    async def _incoming(self, method: str, response: Response) -> Response:
        """Raises ``Refused``."""
        inject = self._rule.inject
        told = replace(
            response,
            headers=_without_ours(response.headers),
            rule=self._index,
            secret=inject.secret if inject else None,
        )
        if self._spellings is None:
            return told
        body = Cleaned(response.body, self._spellings)
        has_body = method != "HEAD" and response.status not in _NO_BODY
        if has_body and _is_encoded(response):
            await body.aclose()
            raise self._refused(
                "cannot_redact",
                f"{self._origin.host} answered in an encoding or in parts, in which the secret could not be found.",
                "Ask for something that the server gives whole and uncompressed, or ask for a rule without redact.",
            )
        headers = _cleaned(told.headers, self._spellings)
        return replace(told, headers=headers, body=body, length=None if has_body else told.length)

    def _refused(self, code: str, reason: str, remedy: str) -> Refused:
        return Refused(Denied(self._origin.host, self._origin.port, code, reason, remedy))


def _spellings(inject: Inject | None, secret: SecretStr | None) -> Spellings | None:
    """``None``: nothing is to be taken out. Of ``user:password`` the password alone, too."""
    if inject is None or not inject.redact:
        return None
    value = secret.get_secret_value() if secret is not None else ""
    return Spellings(value, value.partition(":")[2]) if inject.into == "basic" else Spellings(value)


def _without_ours(headers: Headers) -> Headers:
    return tuple(one for one in headers if not same_header(one[0]).startswith(OURS))


def _cleaned(headers: Headers, spellings: Spellings) -> Headers:
    """A name with a secret in it, in small letters or not, is left out with its value."""
    return tuple(
        (name, spellings.cleaned(value.encode("latin-1")).decode("latin-1"))
        for name, value in headers
        if name not in _DIGESTS and not spellings.are_in_name(name)
    )


def _is_encoded(response: Response) -> bool:
    encodings = [value.strip().lower() for name, value in response.headers if name == "content-encoding"]
    kind = (response.header("content-type") or "").strip().lower()
    in_parts = response.status in _PARTS or kind.startswith("multipart/byteranges")
    return in_parts or any(one not in ("", "identity") for one in encodings)
