"""``dayfly doctor``: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from dayfly.cli.called import typeable
from dayfly.cli.endings import Ending, guarded, say
from dayfly.cli.printable import printable
from dayfly.cli.tables import show_table
from dayfly.doctor import Finding, examine

__all__ = ["doctor"]

_MARKS = {True: Text("ok", style="green"), False: Text("no", style="red"), None: Text("note", style="yellow")}


@guarded
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> int:
    """Examine this machine. Exit code 0 if sandboxes can run here, 1 if something is missing."""
    from dayfly.boundaries.gvisor import GvisorBoundary
    from dayfly.paths import default_paths

    findings = examine([GvisorBoundary(default_paths())])
    if as_json:
        say(json.dumps([dataclasses.asdict(finding) for finding in findings]))
    else:
        _show(findings)
    return Ending.CODE_FAILED if any(finding.ok is False for finding in findings) else Ending.OK


def _show(findings: list[Finding]) -> None:
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        text = Text(printable(finding.message))
        if finding.remedy:
            text.append(f"\n{printable(typeable(finding.remedy))}", style="bold")
        table.add_row(_MARKS[finding.ok], finding.name, text)
    show_table(table)
