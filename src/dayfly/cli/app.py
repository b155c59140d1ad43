"""All commands in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from dayfly import __version__
from dayfly.cli.commands import CommandGroup

__all__ = ["app"]

app = typer.Typer(
    cls=CommandGroup,
    help="Run code that nobody has read in a disposable gVisor sandbox: no network, no credentials, a short life.",
    epilog="Exit codes: 0 ok, 1 the code failed, 2 usage, 3 a limit, 4 dayfly or this machine, 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dayfly {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Options of ``dayfly`` itself."""
