"""Who is asking, and whether they may. Who may not is told so before anything is looked up for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path
from fastapi.requests import HTTPConnection

from dayfly.errors import NoSuchSandbox
from dayfly.manager import Registration
from dayfly.server.asgi import Scope
from dayfly.server.errors import NotAllowed, TooManyFailures, Unauthenticated
from dayfly.server.keys import ADMIN, READ, RUN, SCOPES
from dayfly.server.services import Services, services_of

__all__ = [
    "Administrator",
    "Caller",
    "Owned",
    "Reader",
    "Runner",
    "Seen",
    "Used",
    "allowed",
    "authenticate",
    "check_may",
    "remember",
]


@dataclass(frozen=True)
class Caller:
    """Whoever showed a valid secret. ``sandbox``: the only one that they may use, for a token."""

    key: str
    tenant: str
    scopes: tuple[str, ...]
    sandbox: str | None

    def may(self, scope: str) -> bool:
        """A scope includes those before it; one that is none of ``SCOPES`` stands for itself."""
        including = SCOPES[SCOPES.index(scope) :] if scope in SCOPES else (scope,)
        return not set(including).isdisjoint(self.scopes)


def authenticate(connection: HTTPConnection, services: Services) -> Caller:
    """Raises ``Unauthenticated`` or ``TooManyFailures``."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    key = services.keys.check(secret.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        raise _failure(connection, services)
    return Caller(key.id, key.tenant, key.scopes, key.sandbox)


def remember(scope: Scope, caller: Caller) -> None:
    """For the routes, and for the log."""
    scope.setdefault("state", {})["caller"] = caller


def _failure(connection: HTTPConnection, services: Services) -> Unauthenticated | TooManyFailures:
    address = connection.client.host if connection.client else "unknown"
    wait = services.failures.note(address)
    if wait:
        return TooManyFailures(
            "too many wrong keys from this address", retry_after=wait, remedy="wait, and mend the key"
        )
    services.tenants.note("authentication.failed", "", {"address": address})
    return Unauthenticated(
        "no valid key came with the request",
        remedy="send Authorization: Bearer dfk_... (api_key= and DAYFLY_API_KEY do) with a key that is neither revoked nor expired: dayfly keys list",
    )


def known(connection: HTTPConnection) -> Caller:
    """Whom the guard has let in."""
    caller = connection.state.caller
    assert isinstance(caller, Caller)
    return caller


def check_may(caller: Caller, scope: str, *, token: bool) -> Caller:
    """The caller, if they have the scope; without ``token`` none who has but a token for one sandbox. Raises ``NotAllowed``."""
    if caller.sandbox is not None and not token:
        raise NotAllowed("a token for one sandbox may only use that", remedy="use an API key")
    if not caller.may(scope):
        raise NotAllowed(f"this key has not the scope {scope}", remedy=f"use a key with the scope {scope}")
    return caller


class _May:
    """``check_may`` of whom the guard has let in."""

    def __init__(self, scope: str, *, token: bool) -> None:
        self._scope = scope
        self._token = token

    async def __call__(self, connection: HTTPConnection) -> Caller:
        """Raises ``NotAllowed``."""
        return check_may(known(connection), self._scope, token=self._token)


def allowed(scope: str) -> _May:
    """A dependency: whoever has a key with that scope."""
    return _May(scope, token=False)


class _Sandbox:
    """The sandbox in the path, for whoever ``may``; else 404, as if there were none. Every call asks for one, so it asks for
    nothing itself: the framework takes 0.1 ms for a dependency of a dependency."""

    def __init__(self, may: _May) -> None:
        self._may = may

    async def __call__(self, sandbox: SandboxId, connection: HTTPConnection) -> Registration:
        """Raises ``NotAllowed`` or ``NoSuchSandbox``."""
        caller = await self._may(connection)
        if caller.sandbox not in (None, sandbox):
            raise NoSuchSandbox.of(sandbox)
        return services_of(connection).tenants.find(caller.tenant, sandbox)


SandboxId = Annotated[str, Path(description="A sandbox's id.")]

Reader = Annotated[Caller, Depends(_May(READ, token=False))]
Runner = Annotated[Caller, Depends(_May(RUN, token=False))]
Administrator = Annotated[Caller, Depends(_May(ADMIN, token=False))]

Seen = Annotated[Registration, Depends(_Sandbox(_May(READ, token=True)))]
"""For whoever may look at it."""

Used = Annotated[Registration, Depends(_Sandbox(_May(RUN, token=True)))]
"""For whoever may use it."""

Owned = Annotated[Registration, Depends(_Sandbox(_May(RUN, token=False)))]
"""For whoever may also end it: no token may."""
