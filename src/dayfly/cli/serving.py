"""A whole server in this process, for as long as a block lasts: what ``dayfly prove`` calls as strangers would."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dayfly.paths import Paths, make_directory

if TYPE_CHECKING:
    from dayfly.manager import Manager
    from dayfly.server import Configuration

__all__ = ["Serving", "serving"]

MOST_SANDBOXES = 8
"""At a time: a proof has two."""

OVERCOMMIT = 4.0
"""Of the machine's memory and cores: a small one has room for two sandboxes of any policy."""

KEYS = (("first", "run"), ("second", "run"), ("first", "read"))
"""Tenant and scope of each."""


@dataclass(frozen=True)
class Serving:
    """Its address, the secrets of ``KEYS``, its journal and what that is signed with."""

    url: str
    keys: list[str]
    journal: Path
    public_key: bytes


@asynccontextmanager
async def serving(configuration: Configuration, manager: Manager, directory: Path) -> AsyncIterator[Serving]:
    """What it writes is in ``directory``. The manager is its own: it is closed with it."""
    from dayfly.journal import Journal, Signer
    from dayfly.manager import Admission, Allowance, Capacity, Tenants
    from dayfly.manager.admission import available_memory
    from dayfly.server import Keys, Places, Readiness
    from dayfly.server.app import create_app
    from dayfly.server.services import Services
    from dayfly.server.serving import Listener, serve

    places = Places(Paths(directory, directory / "run"), directory / "secrets")
    make_directory(places.directory, 0o700)
    with ExitStack() as open_now:
        keys = Keys(places.state)
        open_now.callback(keys.close)
        secrets = [keys.create(tenant, "proof", [scope])[1] for tenant, scope in KEYS]
        listener = Listener.bind(configuration)
        open_now.callback(listener.socket.close)
        signer = Signer.load(places.journal_key)
        journal = Journal(places.journal, signer)
        open_now.callback(journal.close)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        capacity = Capacity.of_machine(memory, os.cpu_count() or 1, overcommit=OVERCOMMIT, sandboxes=MOST_SANDBOXES)
        admission = Admission(capacity, lambda tenant: Allowance(), free_memory=available_memory)
        tenants = Tenants(manager, admission, lambda tenant: Allowance(), journal=journal)
        services = Services(
            tenants,
            keys,
            Readiness(lambda: None),
            configuration,
            journal=places.journal,
            public_key=signer.verifier.public,
        )
        stop = asyncio.Event()
        answering = asyncio.ensure_future(serve(create_app(services), listener, configuration, stop, tenants.end_all))
        try:
            yield Serving(listener.url, secrets, places.journal, signer.verifier.public)
        finally:
            stop.set()
            await answering
            await tenants.close()
