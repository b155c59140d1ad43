"""``dayfly serve``: the HTTP API over this machine's sandboxes, in the foreground, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dayfly.cli.composing import composed
from dayfly.cli.endings import guarded, note, polite_signals, say
from dayfly.errors import HostError

if TYPE_CHECKING:
    from dayfly.cli.composing import Composed
    from dayfly.manager import Tenants
    from dayfly.server import Configuration, Keys, Places
    from dayfly.server.proven import Subject
    from dayfly.server.proving import Proving

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
    prove: Annotated[
        bool | None,
        typer.Option("--prove/--no-prove", help="Prove at the start that sandboxes are closed (default: yes)."),
    ] = None,
) -> int:
    """Serve sandboxes over HTTP. SIGTERM or Ctrl-C ends it: conversations are paused, and all other sandboxes end."""
    configuration = configured(config, host=host, port=port, behind_proxy=behind_proxy or None, prove=prove)
    asyncio.run(_serve(configuration, config))
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


async def _serve(configuration: Configuration, file: Path | None) -> None:
    """Everything is made here and closed in the reverse order: first no more requests, then no more sandboxes."""
    from dayfly.server import Keys, Places, start_logging

    stop = _stopped_by_signals()
    places = Places.of(configuration)
    with ExitStack() as open_now:
        open_now.callback(start_logging(FileIO(sys.stderr.fileno(), "wb", closefd=False).write))
        keys = Keys(places.state)
        open_now.callback(keys.close)
        _check_keys(keys, configuration)
        made = composed(open_now, configuration, places, keys, _proving(configuration, places, file))
        try:
            await _answer(made, configuration, places, stop)
        finally:
            await made.services.tenants.close()


async def _answer(made: Composed, configuration: Configuration, places: Places, stop: asyncio.Event) -> None:
    """Until ``stop``; then conversations are paused, and all other sandboxes end."""
    from dayfly.server.app import create_app
    from dayfly.server.serving import serve as answer

    tenants = made.services.tenants

    async def wind_up() -> None:
        if configuration.pausing.at_stop:
            await tenants.pause_conversations(configuration.pausing.stop_seconds)
        await tenants.end_all()

    async def renew_spares(subject: Subject) -> None:
        await tenants.renew_spares(subject.template)

    async with _in_the_background(made, configuration):
        await _recover(tenants, places)
        app = create_app(made.services)
        gc.collect()
        gc.freeze()  # what is there now stays: looking through it took 30 ms now and then, and everybody waited
        if made.services.proving is not None:
            made.services.proving.start(tenants.note, renew_spares)
        say(f"listening on {made.listener.url}")
        sys.stdout.flush()
        await answer(app, made.listener, configuration, stop, wind_up)
        await wind_up()


async def _recover(tenants: Tenants, places: Places) -> None:
    from dayfly.journal import Reader
    from dayfly.manager.budget import DAY

    reader = Reader(places.journal)
    unended = [(row.entry.chain, row.entry.tenant) for row in reader.unended()]
    today = int(time.time() // DAY * DAY * 1e9)
    await tenants.recover(unended, reader.cpu_seconds_since(today))


@asynccontextmanager
async def _in_the_background(made: Composed, configuration: Configuration) -> AsyncIterator[None]:
    """The journal's old entries go, if they are to; what else was begun ends with it."""
    from dayfly.server.retention import retire_daily

    retiring = None
    if configuration.journal_days is not None:
        retiring = asyncio.ensure_future(retire_daily(made.journal, configuration.journal_days))
    try:
        yield
    finally:
        if retiring is not None:
            retiring.cancel()
        if made.services.proving is not None:
            await made.services.proving.close()


def _proving(configuration: Configuration, places: Places, file: Path | None) -> Proving | None:
    from dayfly.cli.prover import Child
    from dayfly.policy import Policy
    from dayfly.server.proven import Subject
    from dayfly.server.proving import Proving

    if not configuration.prove:
        return None
    own = [Subject("", Policy())]
    subjects = own + [Subject(name, entry.policy, entry.preload) for name, entry in configuration.templates.items()]
    return Proving(
        subjects, Child(places.paths, file), required=configuration.require_proof, hours=configuration.prove_hours
    )


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
