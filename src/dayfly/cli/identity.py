"""``dayfly identity``: what the identities need that rules use outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dayfly.cli.endings import guarded, say
from dayfly.cli.options import policy_of
from dayfly.errors import InputError
from dayfly.network import ObjectsRule, Output
from dayfly.network.aws_policy import aws_policy
from dayfly.network.objects import Objects

__all__ = ["identity"]

identity = typer.Typer(help="Say what the identities need that rules use outside.", no_args_is_help=True)


@identity.callback()
def group() -> None:
    """Makes it a group though there is one command so far."""


@identity.command("aws-policy")
@guarded
def print_aws_policy(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy as a TOML file.")],
    credentials: Annotated[str | None, typer.Option(help="Only the rules that use this secret.")] = None,
) -> int:
    """Print the IAM policy (JSON) that allows what the rules for objects, inputs and outputs need, and nothing else."""
    ones = _chosen(file, credentials)
    rules = [one for one in ones if isinstance(one, Objects)]
    say(json.dumps(aws_policy(rules, [one for one in ones if isinstance(one, Output)]), indent=2))
    return 0


def _chosen(file: Path, credentials: str | None) -> list[Objects | Output]:
    """What is read, listed or written, and what objects are only put into. Raises ``InputError``."""
    policy = policy_of(file, image=None, timeout=None, memory=None, cpus=None)
    rules = () if isinstance(policy.network, str) else policy.network
    objects = [rule.objects for rule in rules if isinstance(rule, ObjectsRule)]
    ones: list[Objects | Output] = [*objects, *(one.rule.objects for one in policy.inputs), *policy.outputs]
    names = sorted({one.credentials for one in ones})
    if credentials is None and len(names) > 1:
        remedy = f"choose one with --credentials: {', '.join(names)}"
        raise InputError(
            f"the rules of {file} use several identities, and each is to have its own policy", remedy=remedy
        )
    found = [one for one in ones if credentials in (None, one.credentials)]
    if not found:
        remedy = "write one, such as objects = {bucket = 'my-data', prefix = 'in/', endpoint = 'https://...', credentials = '...'}"
        which = f" that uses {credentials}" if credentials else ""
        raise InputError(f"{file} has no rule for objects{which}", remedy=remedy)
    return found
