"""The real credentials, and a signature of theirs (AWS Signature Version 4). botocore computes it; only its signer is loaded, since a client of
it takes a second to make, and reads files that the gateway may not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlunsplit

from dayfly.egress.http.messages import Origin, Request

__all__ = ["UNSIGNED", "BadCredentials", "Credentials", "credentials", "load", "signed"]

UNSIGNED = "UNSIGNED-PAYLOAD"
"""In the place of the body's digest: TLS says that it came as it was sent."""


class BadCredentials(ValueError):
    """The value of a secret is not of the form that this needs. Nothing of it is said."""


@dataclass(frozen=True)
class Credentials:
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def load() -> bool:
    """Before the gateway gives up what it may read: whether botocore is there."""
    try:
        import botocore.auth
        import botocore.awsrequest  # noqa: F401
    except ImportError:
        return False
    return True


def credentials(value: str) -> Credentials:
    """Of a secret ``KEY_ID:SECRET`` or ``KEY_ID:SECRET:SESSION_TOKEN``. Raises ``BadCredentials``."""
    key, *rest = value.strip().split(":", 2)
    if not key or not rest or not all(rest) or not value.isascii() or any(one.isspace() for one in value.strip()):
        raise BadCredentials
    return Credentials(key, *rest)


def signed(request: Request, origin: Origin, region: str, who: Credentials, digest: str) -> Request:
    """``digest``: of the body (SHA-256, in hexadecimal), or ``UNSIGNED``. All headers are signed."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest

    class Signer(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
        def payload(self, _: object) -> str:
            return digest

    url = urlunsplit((origin.scheme, origin.authority, request.path, request.query, ""))
    made = AWSRequest(method=request.method, url=url, headers=dict(request.headers))
    Signer(who, "s3", region).add_auth(made)
    headers = tuple((str(name).lower(), str(value)) for name, value in made.headers.items())
    return Request(request.method, request.path, request.query, headers, request.body, request.length)
