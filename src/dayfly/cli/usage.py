"""Mistakes on the command line itself, told in the two lines of every other error."""

from __future__ import annotations

import difflib
import re
import sys
from typing import Any

import typer

from dayfly.cli.called import command
from dayfly.cli.endings import Ending, OutputLost, complain, explain

__all__ = ["told"]

_UsageError: Any = typer.BadParameter.__base__  # its own name has moved between versions of typer


def told(app: typer.Typer) -> int:
    """Run ``app`` with ``sys.argv`` and return the exit code."""
    try:
        return int(app(prog_name=command(), standalone_mode=False) or 0)
    except _UsageError as error:
        return _tell(error)
    except OSError as error:  # the help is written outside of every command
        return explain(error if isinstance(error, BrokenPipeError) else OutputLost(error.strerror or str(error)))
    except typer.Abort:
        return Ending.CODE_FAILED


def _tell(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: the help is the answer
        error.show(sys.stderr)
        return Ending.USAGE
    complain(_sentence(error), _remedy(error))
    return Ending.USAGE


def _sentence(error: Any) -> str:
    text: str = error.format_message().strip().rstrip(".")
    text = re.sub(r"\s*\((Possible options|Did you mean)[^)]*\)|\.? Did you mean .*$", "", text)
    text = re.sub(r": Input should be a valid (?:number|integer).*", ": not a number", text).replace(
        "argument(s)", "argument"
    )
    return text[:1].lower() + text[1:]


def _remedy(error: Any) -> str:
    context = error.ctx
    path = context.command_path if context else command()
    near = _near(error)
    return f"did you mean {near}? ({path} --help)" if near else f"{path} --help"


def _near(error: Any) -> str | None:
    """The option or command that was probably meant."""
    if error.ctx is None:
        return None
    if wrong := getattr(error, "option_name", None):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    else:
        known = list(getattr(error.ctx.command, "commands", ()))
        wrong = next(iter(re.findall(r"No such command '(.*?)'", error.message)), "")
    bare = {name.lstrip("-"): name for name in known}  # dashes are alike in all of them
    return next((bare[name] for name in difflib.get_close_matches(wrong.lstrip("-"), bare, 1)), None)
