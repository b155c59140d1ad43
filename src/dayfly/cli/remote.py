"""``dayfly stop``, ``pause``, ``resume``, ``usage`` and ``templates``: asked of a server, with a key of one tenant."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.endings import Ending, guarded, note, say
from dayfly.cli.printable import printable
from dayfly.cli.tables import show_table
from dayfly.errors import InputError

__all__ = ["pause", "resume", "stop", "templates", "usage"]

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="As dayfly ps lists them.")]
Url = Annotated[str | None, typer.Option(help="The server (default DAYFLY_URL).")]
ApiKey = Annotated[str | None, typer.Option(help="Its key (better in DAYFLY_API_KEY: others can read command lines).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@guarded
def stop(sandboxes: Ids, url: Url = None, api_key: ApiKey = None) -> int:
    """End sandboxes; returns when nothing of them is left."""
    for sandbox in sandboxes:
        ended = _ask("DELETE", f"/v1/sandboxes/{quote(sandbox, safe='')}", url, api_key)
        note(f"{printable(sandbox)} ended: {printable(str(ended.get('end_reason')))}")
    return Ending.OK


@guarded
def pause(sandboxes: Ids, url: Url = None, api_key: ApiKey = None) -> int:
    """Stop sandboxes and keep their memory, encrypted on the server's disk."""
    return _change("pause", sandboxes, url, api_key)


@guarded
def resume(sandboxes: Ids, url: Url = None, api_key: ApiKey = None) -> int:
    """Go on with paused sandboxes."""
    return _change("resume", sandboxes, url, api_key)


def _change(how: str, sandboxes: list[str], url: str | None, api_key: str | None) -> int:
    for sandbox in sandboxes:
        changed = _ask("POST", f"/v1/sandboxes/{quote(sandbox, safe='')}/{how}", url, api_key)
        note(f"{printable(sandbox)} is {printable(str(changed.get('state')))}")
    return Ending.OK


@guarded
def usage(url: Url = None, api_key: ApiKey = None, as_json: AsJson = False) -> int:
    """What the key's tenant has and uses, and what it may."""
    found = _ask("GET", "/v1/usage", url, api_key)
    if as_json:
        say(json.dumps(found))
        return Ending.OK
    table = Table("what", "now", "allowed", box=None)
    allowed = found.get("allowed") or {}
    for name, value in found.items():
        if name != "allowed":
            table.add_row(*(Text(printable(_number(cell))) for cell in (name, value, allowed.get(name))))
    show_table(table)
    return Ending.OK


@guarded
def templates(url: Url = None, api_key: ApiKey = None, as_json: AsJson = False) -> int:
    """Templates of which the server keeps sandboxes ready."""
    found = _ask("GET", "/v1/templates", url, api_key).get("templates") or []
    if as_json:
        say(json.dumps(found))
        return Ending.OK
    columns = ("name", "image", "spares", "ready")
    table = Table(*columns, box=None)
    for row in found:
        table.add_row(*(Text(printable(_number(row.get(name)))) for name in columns))
    show_table(table, "the server has no template; its configuration names them")
    return Ending.OK


def _ask(method: str, path: str, url: str | None, api_key: str | None) -> dict[str, Any]:
    """The server's answer. Raises ``InputError`` where no server is named, and what the server says."""
    from dayfly.client.remote.address import find_address
    from dayfly.client.remote.http import Http

    address = find_address(url, api_key)
    if address is None:
        raise InputError("no server is named", remedy="give --url, or set DAYFLY_URL and DAYFLY_API_KEY")

    async def ask() -> dict[str, Any]:
        http = Http(address)
        try:
            return dict((await http.ask(method, path)).raw)
        finally:
            await http.close()

    return asyncio.run(ask())


def _number(value: object) -> str:
    """As a person reads it."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
