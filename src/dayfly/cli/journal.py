"""``dayfly journal``, ``ps`` and ``logs``: what happened, read from the journal's file, whether the server runs or not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.endings import Ending, guarded, note, say
from dayfly.cli.printable import printable
from dayfly.cli.serve import ConfigFile, configured
from dayfly.cli.tables import show_table
from dayfly.errors import HostError, InputError, LocalFileError
from dayfly.limits import size_text

if TYPE_CHECKING:
    from dayfly.cli.egress import Sums
    from dayfly.journal import Journal, Reader, SignedHead, Stored
    from dayfly.server import Places

__all__ = ["backup", "journal", "logs", "ps"]

journal = typer.Typer(help="Read and verify what the server has written down.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, an object a line.")]
Chain = Annotated[str, typer.Argument(metavar="ID", help="A sandbox's id, or 'server'.")]

MAX_SHOWN = 200
"""Characters of an entry's facts in a list."""


@journal.command("verify")
@guarded
def verify(
    heads: Annotated[Path | None, typer.Option(help="Heads that were exported before and kept elsewhere.")] = None,
    config: ConfigFile = None,
) -> int:
    """Find whatever was changed, removed or reordered; with exported heads, also an end that was cut off."""
    places = _places(config)
    reader = _reader(places)
    from dayfly.journal import Signer, audit, load_heads

    verifier = Signer.existing(places.journal_key).verifier
    exported: list[SignedHead] = []
    if heads is not None:
        known, exported = load_heads(_text(heads))
        if known.public != verifier.public:
            raise InputError(
                "the server's key is not the one that signed the exported heads", remedy="find out who changed it"
            )
    found = audit(places.journal, verifier, exported)
    for one in found:
        say(f"{printable(one.chain)} {one.number}: {printable(one.what)}")
    if found:
        return Ending.CODE_FAILED
    chains = reader.heads()
    note(f"ok: {sum(one.head.number for one in chains)} entries in {len(chains)} chains, as they were written")
    return Ending.OK


@journal.command("tail")
@guarded
def tail(
    count: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many.")] = 20,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> int:
    """The last entries of all chains."""
    _show(_reader(_places(config)).last(count), as_json)
    return Ending.OK


@journal.command("show")
@guarded
def show(chain: Chain, as_json: AsJson = False, config: ConfigFile = None) -> int:
    """All entries of one sandbox."""
    _show(_found(_reader(_places(config)), chain), as_json)
    return Ending.OK


@journal.command("egress")
@guarded
def egress(
    chain: Annotated[str | None, typer.Argument(metavar="ID", help="One sandbox's id.")] = None,
    tenant: Annotated[str | None, typer.Option(help="One tenant's sandboxes.")] = None,
    days: Annotated[float | None, typer.Option(min=0, help="No older than that.")] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print the rules that would have allowed what was denied, as TOML.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> int:
    """What was asked of the network: used and denied, by which rule or why, with bytes."""
    from dayfly.cli.egress import asked, table

    sums = _sums(_reader(_places(config)), chain, tenant, days)
    if suggest:
        from dayfly.cli.registries import registries
        from dayfly.network import suggestion

        say("\n".join(suggestion(asked(sums), registries())))
    elif as_json:
        for one in sums:
            say(json.dumps(asdict(one)))
    else:
        show_table(table(sums), "nothing has asked for a name")
    if sums.beyond:
        note(f"{sums.beyond} more were counted and are not listed; name a sandbox, a tenant or --days")
    return Ending.OK


def _sums(reader: Reader, chain: str | None, tenant: str | None, days: float | None) -> Sums:
    """Raises ``InputError`` where the journal has nothing of ``chain``."""
    from dayfly.cli.egress import KINDS, Sums
    from dayfly.manager.budget import DAY

    if chain is not None:
        _known(reader, chain)
    since = 0 if days is None else int((time.time() - days * DAY) * 1e9)
    return Sums(reader.entries(chain, tenant=tenant, kinds=KINDS, since=since))


@journal.command("export")
@guarded
def export(config: ConfigFile = None) -> int:
    """All entries as JSON, one a line."""
    for row in _reader(_places(config)).entries():
        say(json.dumps(row.as_json()))
    return Ending.OK


@journal.command("heads")
@guarded
def heads(config: ConfigFile = None) -> int:
    """Where each chain stands, signed. Keep it elsewhere: with it, ``verify --heads`` sees an end that was cut off."""
    places = _places(config)
    reader = _reader(places)
    from dayfly.journal import Signer, dump_heads

    say(dump_heads(Signer.existing(places.journal_key).verifier, reader.heads()).rstrip())
    return Ending.OK


@journal.command("erase")
@guarded
def erase(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose code and output.")],
    config: ConfigFile = None,
) -> int:
    """Erase what there is of a tenant's code and output; digests stay, so that all still verifies."""
    with _writer(_places(config)) as writer:
        count = writer.erase(tenant).result()
    note(f"erased {count} pieces of code and output of {printable(tenant)}")
    return Ending.OK


@journal.command("retire")
@guarded
def retire(
    days: Annotated[float, typer.Option(min=0, help="Keep what is younger.")],
    config: ConfigFile = None,
) -> int:
    """Remove old entries behind signed beginnings, so that the rest still verifies."""
    from dayfly.manager.budget import DAY

    with _writer(_places(config)) as writer:
        count = writer.retire(int((time.time() - days * DAY) * 1e9)).result()
    note(f"removed {count} entries older than {days:g} days")
    return Ending.OK


@guarded
def backup(
    target: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A new one.")], config: ConfigFile = None
) -> int:
    """Copy all that a server must not lose into a new directory, while it runs or not. It holds keys: keep it safe."""
    places = _places(config)
    from dayfly.server.backup import back_up

    size = back_up(places, target)
    note(
        f"{size_text(size)} in {target}; to go back to it, stop the server and put it in the place of {places.directory}"
    )
    return Ending.OK


@contextmanager
def _writer(places: Places) -> Iterator[Journal]:
    """Raises ``InputError`` where there is no journal yet, and ``HostError`` while a server writes it."""
    _reader(places)
    from dayfly.journal import Journal, Signer

    try:
        writer = Journal(places.journal, Signer.existing(places.journal_key))
    except HostError as error:
        raise HostError(
            error.message, remedy="stop the server; erasing can also be asked of it: DELETE /v1/journal/contents"
        ) from error
    with closing(writer):
        yield writer


@guarded
def logs(chain: Chain, config: ConfigFile = None) -> int:
    """What was run in one sandbox, and what it printed (its beginning, unless it was erased)."""
    reader = _reader(_places(config))
    for row in _found(reader, chain):
        say(f"{_time(row)} {printable(row.entry.kind)} {_outcome(row)}".rstrip())
        for content in reader.contents(row.id):
            text = printable(content.data.decode("utf-8", "replace"))
            say("\n".join(f"  {printable(content.name)}| {line}" for line in text.splitlines()))
    return Ending.OK


@guarded
def ps(as_json: AsJson = False, config: ConfigFile = None) -> int:
    """Sandboxes of the server that have not ended: that are ready, or paused. Of a killed server also those that ended with
    it, until its next start."""
    reader = _reader(_places(config))
    found, paused = reader.unended(), reader.paused()
    if as_json:
        for row in found:
            say(json.dumps({"sandbox": row.entry.chain, "state": _state(row, paused), **row.as_json()}))
        return Ending.OK
    table = Table("id", "state", "tenant", "conversation", "template", "image", "opened", box=None)
    for row in found:
        facts = json.loads(row.entry.facts)
        names = (facts.get("conversation"), facts.get("template"), facts.get("policy", {}).get("image"))
        cells = (
            row.entry.chain,
            _state(row, paused),
            row.entry.tenant,
            *(str(name or "-") for name in names),
            _time(row),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    show_table(table, "no sandbox of the server is alive")
    return Ending.OK


def _state(row: Stored, paused: set[str]) -> str:
    return "paused" if row.entry.chain in paused else "ready"


def _places(config: Path | None) -> Places:
    configuration = configured(config)
    from dayfly.server import Places

    return Places.of(configuration)


def _reader(places: Places) -> Reader:
    """Raises ``InputError`` where there is no journal yet."""
    from dayfly.journal import Reader

    if not places.journal.exists():
        raise InputError("there is no journal yet", remedy="it begins with: dayfly serve")
    return Reader(places.journal)


def _found(reader: Reader, chain: str) -> list[Stored]:
    _known(reader, chain)
    return list(reader.entries(chain))


def _known(reader: Reader, chain: str) -> None:
    """Raises ``InputError`` where the journal has nothing of it."""
    if next(reader.entries(chain), None) is None:
        raise InputError(f"the journal knows of no {chain!a:.80}", remedy="see: dayfly journal tail")


def _show(rows: list[Stored], as_json: bool) -> None:
    if as_json:
        for row in rows:
            say(json.dumps(row.as_json()))
        return
    table = Table("time", "chain", "no", "tenant", "kind", "facts", box=None)
    for row in rows:
        one = row.entry
        cells = (_time(row), one.chain, str(one.number), one.tenant or "-", one.kind, one.facts[:MAX_SHOWN])
        table.add_row(*(Text(printable(cell)) for cell in cells))
    show_table(table, "nothing was written down")


def _outcome(row: Stored) -> str:
    facts = json.loads(row.entry.facts)
    told = {
        name: facts[name] for name in ("outcome", "exit_code", "reason", "path", "error") if facts.get(name) is not None
    }
    return printable(" ".join(f"{name}={value}" for name, value in told.items()))


def _time(row: Stored) -> str:
    return datetime.fromtimestamp(row.entry.at / 1e9, UTC).isoformat(" ", "seconds").removesuffix("+00:00")


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise LocalFileError(str(file), error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text", remedy="--heads takes what dayfly journal heads printed") from error
