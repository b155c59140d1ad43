"""The commands by name. Each is imported when it is named first: ``dayfly ps`` does not wait for what only ``images`` needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from dayfly.cli.endings import explain

__all__ = ["COMMANDS", "CommandGroup"]

COMMANDS = {
    "run": "run",
    "shell": "shell",
    "setup": "setup",
    "doctor": "doctor",
    "prove": "prove",
    "serve": "serve",
    "ps": "journal",
    "logs": "journal",
    "backup": "journal",
    "stop": "remote",
    "pause": "remote",
    "resume": "remote",
    "usage": "remote",
    "templates": "remote",
    "images": "images",
    "keys": "keys",
    "secrets": "secrets",
    "identity": "identity",
    "journal": "journal",
}
"""In the order of the help: the file in which each lies, as a function or a group of its name."""


class CommandGroup(TyperGroup):
    """``dayfly`` itself: it has all of ``COMMANDS``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()  # typer only looks into it


class _Commands(Mapping[str, Any]):
    """What typer calls, by name."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, _imported(name))
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _imported(name: str) -> Any:
    """Raises ``KeyError`` where there is no such command."""
    home = COMMANDS[name]
    try:
        return getattr(import_module(f"dayfly.cli.{home}"), name)
    except KeyboardInterrupt as error:  # the command's own guard is not there yet
        sys.exit(explain(error))


def _made(name: str, command: Any) -> Any:
    """``command`` as typer makes it of a part of an application."""
    whole = typer.Typer(add_completion=False)
    whole.callback()(lambda: None)  # with it, it is a group, whatever is in it
    if isinstance(command, typer.Typer):
        whole.add_typer(command, name=name)
    else:
        whole.command(name)(command)
    made: Any = typer.main.get_command(whole)
    return made.commands[name]
