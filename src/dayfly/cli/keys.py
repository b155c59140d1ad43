"""``dayfly keys``: who may call the server. Works on the server's state, whether it runs or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.endings import guarded, note, say
from dayfly.cli.printable import printable
from dayfly.cli.serve import ConfigFile, configured
from dayfly.cli.tables import show_table

if TYPE_CHECKING:
    from dayfly.server import Key, Keys

__all__ = ["keys"]

keys = typer.Typer(help="Create, list and revoke the server's API keys.", no_args_is_help=True)

Tenant = Annotated[str | None, typer.Option(help="Only those of this tenant.")]


@keys.command("create")
@guarded
def create(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose sandboxes it is for.")],
    name: Annotated[str, typer.Option(help="What you know it by.")] = "cli",
    scope: Annotated[list[str] | None, typer.Option(help="read, run, admin, metrics or proofs (default run).")] = None,
    expires_in: Annotated[float | None, typer.Option(help="Seconds until it expires (default: never).")] = None,
    config: ConfigFile = None,
) -> int:
    """Make a key and print it. Nobody can ask for it again."""
    with _opened(config) as store:
        key, secret = store.create(tenant, name, scope or ["run"], expires_in=expires_in)
    note(f"key {key.id} of {tenant}: {', '.join(key.scopes)}. It is shown this once")
    say(secret)
    return 0


@keys.command("list")
@guarded
def list_all(
    tenant: Tenant = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: ConfigFile = None,
) -> int:
    """List keys, the revoked and expired ones too."""
    with _opened(config) as store:
        found = store.list(tenant)
    if as_json:
        say(json.dumps([vars(key) for key in found]))
        return 0
    table = Table("id", "tenant", "name", "scopes", "created", "expires", "revoked", box=None)
    for key in found:
        table.add_row(*(Text(printable(cell)) for cell in _cells(key)))
    show_table(table, "there is no key; make one with: dayfly keys create TENANT")
    return 0


@keys.command("revoke")
@guarded
def revoke(identity: Annotated[str, typer.Argument(metavar="ID", help="As listed.")], config: ConfigFile = None) -> int:
    """From now on nothing can be done with it, also on a server that runs."""
    with _opened(config) as store:
        key = store.revoke(identity)
    note(f"revoked {key.id} of {key.tenant}")
    return 0


@contextmanager
def _opened(config: ConfigFile) -> Iterator[Keys]:
    configuration = configured(config)
    from dayfly.server import Keys, Places

    store = Keys(Places.of(configuration).state)
    try:
        yield store
    finally:
        store.close()


def _cells(key: Key) -> tuple[str, ...]:
    times = [_day(at) for at in (key.created, key.expires, key.revoked)]
    return (key.id, key.tenant, key.name, ", ".join(key.scopes), *times)


def _day(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).isoformat(" ", "minutes").removesuffix("+00:00")
