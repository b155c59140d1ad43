"""A whole server in this process, for as long as a block lasts: what ``dayfly prove`` calls as strangers would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dayfly.cli.composing import composed

if TYPE_CHECKING:
    from dayfly.server import Configuration, Places

__all__ = ["Serving", "proof_of", "serving"]

KEYS = (("first", "run"), ("second", "run"), ("first", "read"))
"""Tenant and scope of each."""


@dataclass(frozen=True)
class Serving:
    """Its address, the secrets of ``KEYS``, its journal and what that is signed with."""

    url: str
    keys: list[str]
    journal: Path
    public_key: bytes


def proof_of(configuration: Configuration) -> Configuration:
    """The same on a free port of loopback, without what a proof has no use for: spares, conversations that are kept, and caps, which are
    of tenants that it has not."""
    return configuration.model_copy(
        update={
            "host": "127.0.0.1",
            "port": 0,
            "tls": None,
            "behind_proxy": False,
            "templates": {},
            "tenants": {},
            "default_caps": type(configuration.default_caps)(),
        }
    )


@asynccontextmanager
async def serving(configuration: Configuration, places: Places) -> AsyncIterator[Serving]:
    """On the running loop. What it writes is where ``places`` say, and is left there."""
    from dayfly.server import Keys
    from dayfly.server.app import create_app
    from dayfly.server.serving import serve

    with ExitStack() as open_now:
        keys = Keys(places.state)
        open_now.callback(keys.close)
        secrets = [keys.create(tenant, "proof", [scope])[1] for tenant, scope in KEYS]
        made = composed(open_now, configuration, places, keys)
        services, tenants, stop = made.services, made.services.tenants, asyncio.Event()
        app = create_app(services)
        answering = asyncio.ensure_future(serve(app, made.listener, configuration, stop, tenants.end_all))
        try:
            yield Serving(made.listener.url, secrets, places.journal, services.public_key)
        finally:
            stop.set()
            await answering
            await tenants.close()
