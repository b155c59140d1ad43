"""All commands in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from dayfly import __version__
from dayfly.cli.doctor import doctor
from dayfly.cli.identity import identity
from dayfly.cli.images import images
from dayfly.cli.journal import backup, journal, logs, ps
from dayfly.cli.keys import keys
from dayfly.cli.prove import prove
from dayfly.cli.remote import pause, resume, stop, templates, usage
from dayfly.cli.run import run
from dayfly.cli.secrets import secrets
from dayfly.cli.serve import serve
from dayfly.cli.setup import setup
from dayfly.cli.shell import shell

__all__ = ["app"]

app = typer.Typer(
    help="Run code that nobody has read in a disposable gVisor sandbox: no network, no credentials, a short life.",
    epilog="Exit codes: 0 ok, 1 the code failed, 2 usage, 3 a limit, 4 dayfly or this machine, 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(shell)
app.command()(setup)
app.command()(doctor)
app.command()(prove)
app.add_typer(images, name="images")
app.command()(serve)
app.add_typer(keys, name="keys")
app.add_typer(secrets, name="secrets")
app.add_typer(identity, name="identity")
app.add_typer(journal, name="journal")
app.command()(ps)
app.command()(logs)
app.command()(backup)
app.command()(stop)
app.command()(pause)
app.command()(resume)
app.command()(usage)
app.command()(templates)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dayfly {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options of ``dayfly`` itself."""
