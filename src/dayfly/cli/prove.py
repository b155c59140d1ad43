"""``dayfly prove``: what must be denied is denied, and what must work works, today, on this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from dayfly.cli.endings import Ending, guarded, say
from dayfly.cli.options import ImageName, PolicyFile, policy_of
from dayfly.cli.printable import printable
from dayfly.cli.serve import ConfigFile, configured
from dayfly.cli.tables import show_table
from dayfly.cli.targeting import number_of, proof_of, target_of
from dayfly.errors import InputError
from dayfly.limits import MIB

if TYPE_CHECKING:
    from dayfly.cli.proving import Delegated, Here
    from dayfly.prove import Probe, Proof
    from dayfly.prove.targets import Target
    from dayfly.server import Places

__all__ = ["prove"]

_MARKS = {"green": "green", "amber": "yellow", "red": "red"}


@guarded
def prove(
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All probes, also those that flood; or those of a minute.")
    ] = False,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME", help="Only these properties; again for more.")
    ] = None,
    policy: PolicyFile = None,
    image: ImageName = None,
    config: ConfigFile = None,
    template: Annotated[str | None, typer.Option(metavar="NAME", help="One of the configuration's templates.")] = None,
    canary_domain: Annotated[
        str | None,
        typer.Option(
            metavar="DOMAIN", help="A zone of yours that is delegated to this machine: ask for its names, too."
        ),
    ] = None,
    canary_listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where that zone's name server listens meanwhile.")
    ] = "0.0.0.0:53",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as a page, too.")] = None,
    since: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Show what is otherwise than in this report, one of --json.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Prove somebody else's sandbox: bwrap, gvisor-wheel, docker, command, ..."),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="LINE", help="Of --target command: takes a Python program on its standard input."),
    ] = None,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="The command leads to another machine, where nothing is seen.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Show every probe, not only what is not as it must be.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Sign it into the server's journal, too.")] = False,
) -> int:
    """Attack sandboxes of this machine from inside, and judge from outside. Exit code 0: all as it must be; 1: not.

    Harmless to the machine: names and addresses are reserved ones, floods are bounded.
    """
    other = _other(target, command, elsewhere, own=any((full, policy, image, config, template, canary_domain, record)))
    ground = _ground(policy, image, config, template)
    if canary_domain is not None:
        ground.delegated = _delegated(canary_domain, canary_listen)
    probes = _probes(properties or [], full, zone=canary_domain is not None)
    if html is not None and not html.parent.is_dir():
        raise InputError(f"there is no directory {str(html.parent)!r}", remedy="make it, or name another file")
    before = _report(since) if since is not None else None
    if record:
        from dayfly.cli.prover import check_recordable

        check_recordable(_places(ground))
    if other is not None:
        proof = _of_target(other, properties or [], quiet=as_json)
    else:
        proof = asyncio.run(_carried_out(ground, probes, "full" if full else "quick", quiet=as_json))
    if html is not None:
        _write(html, proof)
    if as_json:
        say(proof.model_dump_json(indent=2))
    else:
        _show(proof, every)
        if before is not None:
            _show_changes(before, proof)
    if record:
        from dayfly.cli.prover import record as sign
        from dayfly.server.proven import Subject

        sign(_places(ground), proof, Subject(template or "", ground.policy, ground.preload))
    return Ending.OK if proof.green else Ending.CODE_FAILED


def _delegated(domain: str, place: str) -> Delegated:
    """Raises ``InputError``."""
    from dayfly.cli.proving import Delegated
    from dayfly.prove.canary import domain_of

    address, _, port = place.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    try:
        ip_address(address)
        if not port.isdecimal() or not 0 <= int(port) < 65536:
            raise ValueError
    except ValueError:
        raise InputError(f"not an address and a port: {place!a:.80}", remedy="such as 0.0.0.0:53 or [::]:53") from None
    return Delegated(domain_of(domain), address, int(port))


def _other(name: str | None, command: str | None, elsewhere: bool, *, own: bool) -> Target | None:
    """Somebody else's sandbox, if it is to be one. ``own``: what dayfly's own are to be was given, too."""
    if name is None:
        if command is not None or elsewhere:
            raise InputError("--command and --elsewhere are for --target command", remedy="add: --target command")
        return None
    if own:
        remedy = "leave --full, --policy, --image, --config, --template, --canary-domain and --record out"
        raise InputError("--target is somebody else's sandbox", remedy=remedy)
    return target_of(name, command, elsewhere=elsewhere)


def _of_target(target: Target, properties: list[str], *, quiet: bool) -> Proof:
    with _progress(number_of(properties), shown=not quiet and sys.stderr.isatty()) as tell:
        return proof_of(target, properties, lambda row: tell(row.title))


def _probes(names: list[str], full: bool, *, zone: bool) -> tuple[Probe, ...]:
    from dayfly.cli.absent import absent, without
    from dayfly.prove import Property, chosen

    known = {one.value for one in Property}
    for name in names:
        if name not in known:
            raise InputError(f"there is no property {name!r}", remedy=f"one of: {', '.join(sorted(known))}")
    return without(absent(), chosen([Property(name) for name in names], quick=not full, zone=zone))


def _ground(policy: Path | None, image: str | None, config: Path | None, template: str | None) -> Here:
    """Raises ``InputError`` and ``PolicyError``."""
    from dayfly.cli.proving import Here

    own = policy_of(policy, image=image, timeout=None, memory=None, cpus=None)
    if template is not None and (policy is not None or image is not None):
        raise InputError("a template has its own policy and image", remedy="leave --policy and --image out")
    if config is None and template is None:
        return Here(own)
    from dayfly.server import Places

    configuration = configured(config)
    if template is None:
        return Here(own, Places.of(configuration).paths, configuration)
    if template not in configuration.templates:
        there = ", ".join(configuration.templates) or "none; --config names the file that has them"
        raise InputError(f"there is no template {template!r}", remedy=f"there is {there}")
    entry = configuration.templates[template]
    return Here(entry.policy, Places.of(configuration).paths, configuration, preload=entry.preload)


def _places(ground: Here) -> Places:
    from dayfly.server import Places

    return Places.of(ground.configuration or configured(None))


async def _carried_out(
    ground: Here, probes: tuple[Probe, ...], chosen: Literal["quick", "full"], *, quiet: bool
) -> Proof:
    from dayfly.prove import prove as carry_out

    async with ground:
        with _progress(len(probes), shown=not quiet and sys.stderr.isatty()) as tell:
            return await carry_out(ground, probes, chosen=chosen, tell=lambda outcome: tell(outcome.probe.title))


@contextmanager
def _progress(number: int, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """How many are done, on a terminal; told of each by its title."""
    with Progress(TextColumn("{task.completed} of {task.total} probes"), BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True),
                  transient=True, disable=not shown) as bar:  # fmt: skip
        task = bar.add_task("", total=number)
        yield lambda title: bar.update(task, advance=1, description=title)


MOST_REPORT = 16 * MIB
"""Bytes of an earlier report. One has some hundred kilobytes."""


def _report(path: Path) -> Proof:
    from dayfly.prove import Proof

    try:
        with path.open("rb") as file:
            return Proof.model_validate_json(file.read(MOST_REPORT))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}", remedy="name a report that --json has printed"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is no report", remedy="name one that --json has printed") from error


def _show_changes(before: Proof, now: Proof) -> None:
    from dayfly.prove.drift import changes

    found = changes(before, now)
    say("")
    say(f"Since {before.at:%Y-%m-%d %H:%M} UTC: {len(found) or 'nothing'} changed")
    table = Table.grid(padding=(0, 2))
    for one in found:
        style = "red" if one.worse else ""
        table.add_row(
            Text(printable(one.what), style=style), printable(one.before), Text(printable(one.now), style=style)
        )
    show_table(table)


def _write(path: Path, proof: Proof) -> None:
    from dayfly.prove.page import page

    try:
        path.write_text(page(proof), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}", remedy="name a file in a directory of yours"
        ) from error


def _show(proof: Proof, every: bool) -> None:
    from dayfly.prove import QUESTIONS, Verdict

    whose = f"{printable(proof.target.name)} {printable(proof.target.version)}, " if proof.target else ""
    what = printable(proof.target.configured) if proof.target else f"image {printable(proof.image)}"
    say(f"dayfly proof of {whose}{proof.at:%Y-%m-%d %H:%M} UTC, the {proof.set} set, {what}")
    say("")
    table = Table.grid(padding=(0, 2))
    for number, question in QUESTIONS.items():
        answer, rows = proof.answer(number)
        table.add_row(question, Text(answer, style="green" if answer == "no" else "red"), f"{len(rows)} probes")
    show_table(table)
    say("")
    _show_conditions(proof)
    say("")
    _show_rows(proof, every)
    counted = proof.count()
    said = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict)
    state = "all as it must be" if proof.green else f"{len(proof.red)} NOT as they must be"
    say(f"{len(proof.rows)} probes in {proof.seconds:g} s: {said}. {state}")


def _show_conditions(proof: Proof) -> None:
    table = Table.grid(padding=(0, 2))
    for one in proof.conditions:
        text = Text(printable(one.value), style=_MARKS[one.state] if one.state != "green" else "")
        if one.remedy:
            text.append(f"\n{printable(one.remedy)}", style="bold")
        table.add_row(one.name, text)
    show_table(table)


def _show_rows(proof: Proof, every: bool) -> None:
    """By property: how many are as they must be, and those that are not (or every one) with the reason."""
    from dayfly.prove import Verdict

    table = Table.grid(padding=(0, 2))
    for name in dict.fromkeys(row.property for row in proof.rows):
        rows = [row for row in proof.rows if row.property == name]
        good = sum(row.green for row in rows)
        table.add_row(
            Text(name, style="bold"), Text(f"{good} of {len(rows)}", style="green" if good == len(rows) else "red"), ""
        )
        for row in rows:
            if every or not row.green:
                said = (
                    f"{row.verdict.value}, {row.basis.value}"
                    if row.verdict is not Verdict.INCONCLUSIVE
                    else row.verdict.value
                )
                mark = Text(said, style="green" if row.green else "red")
                table.add_row(f"  {row.title}", mark, Text(f"{printable(row.why)} ({row.id})"))
    show_table(table)
    say("")
