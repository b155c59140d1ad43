"""``dayfly secrets``: what rules of the network name and nothing inside ever has. Values go in, and never come out here."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.endings import complain, guarded, note, say
from dayfly.cli.printable import printable
from dayfly.cli.serve import ConfigFile, configured
from dayfly.cli.tables import show_table
from dayfly.errors import InputError
from dayfly.paths import default_paths
from dayfly.secrets import LONGEST_VALUE, Entry, Files, Ring, SecretStr, StoreProblem, Vault, checked_value

__all__ = ["secrets"]

secrets = typer.Typer(help="Store, list and remove secrets that rules of the network name.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="By which rules name it.")]
Tenant = Annotated[str | None, typer.Option(help="Whose it is (default: anybody's whose policy may name it).")]
Conversation = Annotated[str | None, typer.Option(help="The only one of the tenant that it is for.")]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", help="Where it may be sent, as in rules; again for more. Needed.")
]

_MANY_ARGUMENTS = {"allow_extra_args": True}  # told by us, who do not repeat them


@secrets.command("set", context_settings=_MANY_ARGUMENTS)
@guarded
def store(
    context: typer.Context,
    name: Name,
    host: Hosts = None,
    tenant: Tenant = None,
    conversation: Conversation = None,
    from_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Copy it from a variable.")] = None,
    from_file: Annotated[Path | None, typer.Option(help="Copy it from a file.")] = None,
    keyring: Annotated[bool, typer.Option("--keyring", help="Keep the value in this user's keyring.")] = False,
    config: ConfigFile = None,
) -> int:
    """Store a value, or put another in its place. It is read from stdin, or asked for; it is no argument."""
    if context.args:
        raise InputError("a value is no argument: others see those in the list of processes", remedy=_HOW_VALUE)
    if not host:
        raise InputError("say which hosts it may be sent to", remedy="--host api.example.com, again for more")
    entry = Entry(
        name=name,
        hosts=tuple(host),
        tenant=tenant,
        conversation=conversation,
        source="keyring" if keyring else "file",
        created=time.time(),
    )
    value = checked_value(_value(name, from_env, from_file))
    _keep(Files(_place(config)), entry, value)
    note(f"stored {_said(entry)}, for {', '.join(entry.hosts)}")
    return 0


@secrets.command("list")
@guarded
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, config: ConfigFile = None
) -> int:
    """List what is there, without values."""
    entries, problems = Vault.at(_place(config)).all()
    for problem in problems:
        complain(problem.message, problem.remedy)
    if as_json:
        say(json.dumps([entry.model_dump(mode="json") for entry in entries]))
        return 0
    table = Table("name", "hosts", "tenant", "conversation", "source", "age", box=None)
    for entry in entries:
        table.add_row(*(Text(printable(cell)) for cell in _cells(entry)))
    show_table(table, "there is no secret; make one with: dayfly secrets set NAME --host HOST")
    return 0


@secrets.command("rm")
@guarded
def remove(name: Name, tenant: Tenant = None, conversation: Conversation = None, config: ConfigFile = None) -> int:
    """Remove one. Live sandboxes have it until their rules are changed or they end."""
    files = Files(_place(config))
    wanted = Entry(name=name, hosts=(), tenant=tenant, conversation=conversation)
    before = _before(files, wanted)
    if not files.remove(name, wanted.owner):
        raise InputError(f"there is no secret {_said(wanted)}", remedy="dayfly secrets list")
    if before is not None and before.source == "keyring":
        Ring().remove(before)
    note(f"removed {_said(wanted)}")
    return 0


_HOW_VALUE = "give it on stdin, or with --from-env or --from-file; on a terminal it is asked for"


def _place(config: Path | None) -> Path:
    if config is None:
        return default_paths().secrets
    configuration = configured(config)
    from dayfly.server import Places

    return Places.of(configuration).secrets


def _keep(files: Files, entry: Entry, value: SecretStr) -> None:
    """The keyring first: an entry without a value would be of no use. Nothing stays in it that is kept elsewhere now."""
    before = _before(files, entry)
    if entry.source == "keyring":
        Ring().write(entry, value)
    files.write(entry, None if entry.source == "keyring" else value)
    if before is not None and before.source == "keyring" and entry.source != "keyring":
        Ring().remove(before)


def _before(files: Files, entry: Entry) -> Entry | None:
    """The one in whose place it comes; one that cannot be read is none."""
    try:
        return files.find(entry.name, entry.owner)
    except StoreProblem:
        return None


def _value(name: str, variable: str | None, file: Path | None) -> SecretStr:
    """Without the line break at its end. Raises ``InputError``."""
    if variable is not None and file is not None:
        raise InputError("--from-env and --from-file are two values", remedy="give one of them")
    if variable is not None:
        if variable not in os.environ:
            raise InputError(f"there is no variable {variable!a:.80}", remedy=_HOW_VALUE)
        return _bare(SecretStr(os.environ[variable]))
    if file is not None:
        return _read(file)
    if sys.stdin.isatty():
        return _asked_for(name)
    return _decoded(sys.stdin.buffer.read(LONGEST_VALUE + 3))


def _asked_for(name: str) -> SecretStr:
    """Prompted for by ``getpass`` itself: when the prompt is there, the terminal shows nothing of what is typed. Raises ``InputError``."""
    try:
        return SecretStr(getpass.getpass(f"value of {name}: "))
    except EOFError:
        raise InputError("there is no value", remedy=_HOW_VALUE) from None


def _read(file: Path) -> SecretStr:
    try:
        with file.open("rb") as opened:
            return _decoded(opened.read(LONGEST_VALUE + 3))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}", remedy=_HOW_VALUE) from error


def _decoded(content: bytes) -> SecretStr:
    """What is no UTF-8 is refused later, as such: an error of decoding has the text with it."""
    return _bare(SecretStr(content.decode("utf-8", "surrogateescape")))


def _bare(value: SecretStr) -> SecretStr:
    return SecretStr(value.get_secret_value().removesuffix("\n").removesuffix("\r"))


def _said(entry: Entry) -> str:
    whose = f" of {entry.tenant}" if entry.tenant else ""
    return entry.name + whose + (f", conversation {entry.conversation}" if entry.conversation else "")


def _cells(entry: Entry) -> tuple[str, ...]:
    hosts = ", ".join(entry.hosts) or "-"
    age = "-" if entry.created is None else _age(time.time() - entry.created)
    return (entry.name, hosts, entry.tenant or "-", entry.conversation or "-", entry.source, age)


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "now"
