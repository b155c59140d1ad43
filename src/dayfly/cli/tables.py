"""Tables for a person, and for a program that reads them line by line."""

from __future__ import annotations

import io
import sys

from rich.console import Console
from rich.table import Table

from dayfly.cli.endings import note, say

__all__ = ["show_table"]

_ENDLESS = 1_000_000  # columns: what is not shown on a terminal is neither wrapped nor cut


def show_table(table: Table, empty: str = "") -> None:
    """Fit it into the terminal; elsewhere give every row one line, whole. Without a row a person is told ``empty``, and a program nothing."""
    if not table.rows:
        if empty:
            note(empty)
        return
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    text = io.StringIO()
    Console(file=text, highlight=False, width=_ENDLESS, color_system=None).print(table)
    say("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
