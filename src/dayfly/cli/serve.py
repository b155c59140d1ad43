"""``dayfly serve``: the HTTP API over this machine's sandboxes, in the foreground, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from contextlib import ExitStack
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dayfly.cli.endings import guarded, note, polite_signals, say
from dayfly.errors import HostError

if TYPE_CHECKING:
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.journal import Journal
    from dayfly.manager import Allowance, Tenants
    from dayfly.server import Configuration, Keys, Places

__all__ = ["ConfigFile", "configured", "serve"]

LIBRARIES = ("cryptography", "fastapi", "prometheus_client", "uvicorn", "websockets")
"""Of the extra ``server``, whatever of it a command uses: one that is half installed is a mistake."""

ConfigFile = Annotated[Path | None, typer.Option(help="The server's configuration, a TOML file.")]


@guarded
def serve(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (default 8700; 0: a free one).")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A reverse proxy ends TLS and checks names before this server.")
    ] = False,
) -> int:
    """Serve sandboxes over HTTP. SIGTERM or Ctrl-C ends it: conversations are paused, and all other sandboxes end."""
    asyncio.run(_serve(configured(config, host=host, port=port, behind_proxy=behind_proxy or None)))
    return 0


def configured(file: Path | None, **options: object) -> Configuration:
    """The server's configuration. Raises ``InputError``, and ``HostError`` where its libraries are not installed."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise HostError(
            f"the server needs what is not installed: {', '.join(missing)}", remedy="pip install 'dayfly[server]'"
        )
    from dayfly.server import load_configuration

    return load_configuration(file, **options)


async def _serve(configuration: Configuration) -> None:
    """Everything is made here and closed in the reverse order: first no more requests, then no more sandboxes."""
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.journal import Journal, Reader, Signer
    from dayfly.manager.budget import DAY
    from dayfly.server import Keys, Places, Readiness, start_logging
    from dayfly.server.app import create_app
    from dayfly.server.retention import retire_daily
    from dayfly.server.services import Services
    from dayfly.server.serving import Listener
    from dayfly.server.serving import serve as answer

    stop = _stopped_by_signals()
    places = Places.of(configuration)
    with ExitStack() as open_now:
        open_now.callback(start_logging(FileIO(sys.stderr.fileno(), "wb", closefd=False).write))
        keys = Keys(places.state)
        open_now.callback(keys.close)
        _check_keys(keys, configuration)
        listener = Listener.bind(configuration)
        open_now.callback(listener.socket.close)
        signer = Signer.load(places.journal_key)
        journal = Journal(places.journal, signer)
        open_now.callback(journal.close)
        boundary = GvisorBoundary(places.paths, courteous=configuration.machine.courteous)
        tenants = _tenants(configuration, places, boundary, journal)
        services = Services(
            tenants,
            keys,
            Readiness(lambda: _problem(boundary, journal)),
            configuration,
            journal=places.journal,
            public_key=signer.verifier.public,
        )

        async def wind_up() -> None:
            if configuration.pausing.at_stop:
                await tenants.pause_conversations(configuration.pausing.stop_seconds)
            await tenants.end_all()

        retiring = None
        if configuration.journal_days is not None:
            retiring = asyncio.ensure_future(retire_daily(journal, configuration.journal_days))
        try:
            reader = Reader(places.journal)
            unended = [(row.entry.chain, row.entry.tenant) for row in reader.unended()]
            today = int(time.time() // DAY * DAY * 1e9)
            await tenants.recover(unended, reader.cpu_seconds_since(today))
            app = create_app(services)
            gc.collect()
            gc.freeze()  # what is there now stays: looking through it took 30 ms now and then, and everybody waited
            say(f"listening on {listener.url}")
            sys.stdout.flush()
            await answer(app, listener, configuration, stop, wind_up)
            await wind_up()
        finally:
            if retiring is not None:
                retiring.cancel()
            await tenants.close()


def _stopped_by_signals() -> asyncio.Event:
    """From now on, to the end: a second signal does not keep sandboxes from being ended."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, *polite_signals()):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _check_keys(keys: Keys, configuration: Configuration) -> None:
    """Raises ``HostError`` for a server that others could reach and nobody could use."""
    if keys.list():
        return
    if not configuration.is_loopback:
        raise HostError("there is no key, so nobody could use this server", remedy="run: dayfly keys create TENANT")
    note("there is no key yet; make one with: dayfly keys create TENANT")


def _tenants(configuration: Configuration, places: Places, boundary: GvisorBoundary, journal: Journal) -> Tenants:
    from dayfly.agent_bundle import agent_for
    from dayfly.images import Store
    from dayfly.manager import Admission, Allowance, Capacity, Manager, Shelf, Template, Tenants
    from dayfly.manager.admission import available_memory
    from dayfly.manager.means import MachineMeans
    from dayfly.manager.outlet import Outlet
    from dayfly.server.paused import PausedRecords

    machine = configuration.machine
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    capacity = Capacity.of_machine(
        memory, len(os.sched_getaffinity(0)), overcommit=machine.factor, sandboxes=machine.sandboxes
    )

    def allowance_of(tenant: str) -> Allowance:
        return _allowance(configuration, tenant) if tenant else Allowance()  # spares are nobody's yet

    agents = places.paths.data / "agents"
    admission = Admission(capacity, allowance_of, free_memory=available_memory)
    manager = Manager(
        {"gvisor": boundary},
        Store(places.paths),
        lambda image: agent_for(image, agents),
        admission=admission,
        snapshots=places.paths.data / "snapshots",
        shelf=Shelf(places.paused, lasting=True, most=configuration.pausing.most),
        records=PausedRecords(places.state, places.paused),
        outlet=Outlet(means=MachineMeans.at(places.secrets)),
    )
    for name, entry in configuration.templates.items():
        manager.keep(Template(name, entry.policy, entry.spares, entry.spare_seconds, entry.preload))
    return Tenants(manager, admission, allowance_of, journal=journal)


def _allowance(configuration: Configuration, tenant: str) -> Allowance:
    from dayfly.manager import Allowance

    return Allowance(**dict(configuration.caps_of(tenant)))


def _problem(boundary: GvisorBoundary, journal: Journal) -> str | None:
    if journal.failure is not None:
        return journal.failure.message
    report = boundary.probe()
    return None if report.usable else "; ".join(report.reasons)
