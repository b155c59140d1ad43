"""Showing what takes long: bars in a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from dayfly.cli.printable import printable
from dayfly.images.progress import Progress as Report
from dayfly.images.progress import Stage, Step
from dayfly.limits import MIB

__all__ = ["reporting"]


@contextmanager
def reporting(title: str) -> Iterator[Report]:
    """A ``dayfly.images.Progress`` that is shown on stderr while the block lasts."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(console, title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        yield _Bars(bars, title)


class _Lines:
    """One line when a stage begins."""

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._stage: Stage | None = None

    def __call__(self, step: Step) -> None:
        if step.stage is not self._stage:
            self._stage = step.stage
            self._console.print(Text(f"{self._title}: {step.stage.value}"))


class _Bars:
    """One bar a stage."""

    def __init__(self, bars: Progress, title: str) -> None:
        self._bars, self._title = bars, title
        self._tasks: dict[Stage, TaskID] = {}

    def __call__(self, step: Step) -> None:
        if step.stage not in self._tasks:
            for task in self._tasks.values():
                self._bars.update(task, total=1, completed=1)
            name = f"{self._title}: {step.stage.value}"
            self._tasks[step.stage] = self._bars.add_task(name, total=step.total, amount="")
        self._bars.update(self._tasks[step.stage], total=step.total, completed=step.done, amount=_amount(step))


def _amount(step: Step) -> str:
    if step.stage is Stage.DOWNLOAD and step.total:
        return f"{step.done / MIB:.0f} of {step.total / MIB:.0f} MiB"
    count = f"{step.done} of {step.total} " if step.total else ""
    return f"{count}{printable(step.detail)[:40]}"
