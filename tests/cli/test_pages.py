"""The pages tell of every command and option, and of no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from dayfly.cli.app import app
from dayfly.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text("utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (one for one in (*parameter.opts, *parameter.secondary_opts) if one.startswith("--"))
    for name in getattr(command, "commands", ()):
        yield from options(command.commands[name])


@cache
def taken(command: str) -> frozenset[str]:
    """All that ``dayfly COMMAND``, or a command below it, takes."""
    return frozenset({"--help", *options(get_command(app).commands[command])})  # type: ignore[attr-defined]


def test_every_option_is_on_a_page() -> None:
    said = set(OPTION.findall("\n".join(PAGES.values())))
    missing = {f"{name} {option}" for name in COMMANDS for option in taken(name) - said}
    assert not missing


def test_the_pages_give_commands_no_others() -> None:
    """In headings and code: what follows a ``--`` of its own, a pipe or a comment is not dayfly's."""
    line = re.compile(rf"\bdayfly ({'|'.join(COMMANDS)})\b([^`\n|#]*)")
    found = [(page, *one) for page, text in PAGES.items() for one in line.findall(text)]
    assert len(found) > len(COMMANDS)
    wrong = {
        f"{page}: dayfly {name} {option}"
        for page, name, rest in found
        for option in OPTION.findall(rest.partition(" -- ")[0])
        if option not in taken(name)
    }
    assert not wrong
