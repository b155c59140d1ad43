"""The Python kernel of an image without IPython: cells, values, ``display()``."""

from __future__ import annotations

import builtins

from dayfly.agent.kernels import display
from dayfly.agent.kernels.executor import Executor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.publisher import Publisher


class PlainKernel:
    """Runs cells in ``namespace``; ``hidden`` are directories whose frames no traceback shows."""

    name = "plain"
    hidden: tuple[str, ...] = ()

    def __init__(self, namespace: dict[str, object], publisher: Publisher) -> None:
        self._publisher = publisher
        self._executor = Executor(namespace, self._show)
        builtins.display = self._display  # type: ignore[attr-defined]

    def run(self, source: str, number: int) -> None:
        """Run one cell. Raises what it raises."""
        self._executor.run(self._executor.parse(source, f"<cell {number}>"))

    def finish(self) -> None:
        """After the cell, however it ended, and still part of the run."""

    def _show(self, value: object) -> None:
        self._publisher.publish_last(*display.bundle_of(value))

    def _display(self, *values: object, raw: bool = False, metadata: object = None, **ignored: object) -> None:
        """Show values, or with ``raw=True`` MIME bundles, as results of the run."""
        for value in values:
            data, more = (value, metadata) if raw else display.bundle_of(value)
            self._publisher.publish(data, more, main=False)
