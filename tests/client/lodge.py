"""A real server whose sandboxes are rooms in memory: so every test over a ``Landlord`` runs over HTTP as well."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

from dayfly.boundaries.base import CellEnd
from dayfly.client.remote.address import Address
from dayfly.client.remote.sandbox import RemoteSandbox
from dayfly.client.remote.server import Server
from dayfly.errors import NoSuchSandbox
from dayfly.manager import Registration
from dayfly.policy import Policy
from dayfly.server import Configuration, Keys
from dayfly.server.app import create_app
from dayfly.server.services import Services
from dayfly.server.serving import Listener, serve
from dayfly.spec import EndReason
from tests.client.room import Landlord, Room

__all__ = ["DistantLandlord", "Lodge", "lodge"]


class _Life(Room):
    """A room, with what the server asks of a life besides."""

    end_detail = ""
    seconds_left = 60.0

    async def ended(self) -> Any:
        await self.closed.wait()
        return SimpleNamespace(reason=self.end_reason)


class _Tenants:
    """Rooms by tenant. Implements the part of ``dayfly.manager.Tenants`` that is asked for."""

    templates = ()

    def __init__(self) -> None:
        self.rooms: dict[str, list[Room]] = {}
        self._registered: dict[str, Registration] = {}

    async def create(self, tenant: str, policy: Policy, *, env: Mapping[str, str], **_: object) -> Registration:
        room = _Life(policy, env)
        self.rooms.setdefault(tenant, []).append(room)
        self._registered[room.id] = made = Registration(cast(Any, room), tenant)
        return made

    async def end(self, registration: Registration) -> None:
        await registration.life.close()
        registration.end(CellEnd(EndReason.STOPPED))

    async def end_all(self) -> None:
        for registration in self._registered.values():
            await self.end(registration)

    def check_journal(self) -> None:
        """Nothing is written down here."""

    def note(self, *unused: object) -> None:
        """Nor this."""

    def find(self, tenant: str, sandbox: str) -> Registration:
        found = self._registered.get(sandbox)
        if found is None or found.tenant != tenant:
            raise NoSuchSandbox(f"no sandbox {sandbox}")
        return found


class Lodge:
    """The server, once it runs."""

    def __init__(self, url: str, keys: Keys, tenants: _Tenants) -> None:
        self.url, self.keys, self.tenants = url, keys, tenants
        self._names = map(str, itertools.count())

    def landlord(self) -> DistantLandlord:
        """With rooms of its own."""
        tenant = next(self._names)
        self.tenants.rooms[tenant] = rooms = []
        return DistantLandlord(Address(self.url, self.keys.create(tenant, "test", ("run",))[1]), rooms)


class DistantLandlord(Landlord):
    """Makes its rooms in a lodge, over HTTP. ``rooms`` are those at the other end."""

    def __init__(self, address: Address, rooms: list[Room]) -> None:
        super().__init__()
        self.rooms = rooms
        self._address = address
        self._servers: WeakKeyDictionary[asyncio.AbstractEventLoop, Server] = WeakKeyDictionary()

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> RemoteSandbox:  # type: ignore[override]
        here = asyncio.get_running_loop()
        server = self._servers.get(here) or Server(self._address)
        self._servers[here] = server
        sandbox = await server.open(policy, env=env)
        end = sandbox.close

        async def close() -> None:
            await end()
            if all(one.end_reason for one in server._made.values()):  # its loop may end now
                self._servers.pop(here, None)
                await server.close()

        sandbox.close = close  # type: ignore[method-assign]
        return sandbox


@contextmanager
def lodge(directory: Path) -> Iterator[Lodge]:
    """From its start to its end, in a thread with a loop of its own."""
    directory.chmod(0o700)
    keys, tenants, configuration = Keys(directory / "state.db"), _Tenants(), Configuration(port=0, drain_seconds=1)
    listener, stop = Listener.bind(configuration), asyncio.Event()
    services = Services(cast(Any, tenants), Keys(directory / "state.db"), _ready, configuration)
    loop = asyncio.new_event_loop()

    async def live() -> None:
        await serve(create_app(services), listener, configuration, stop, tenants.end_all)
        await tenants.end_all()
        await asyncio.sleep(0)  # whoever waits for that hears of it

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), name="lodge")
    thread.start()
    try:
        yield Lodge(listener.url, keys, tenants)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
        loop.close()


async def _ready() -> None:
    return None
