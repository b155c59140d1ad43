"""Leaving out what an import drags in and nobody here needs."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType, TracebackType

NAME = "logging.config"


class without_logging_config:  # noqa: N801 - reads as a statement
    """``traitlets`` imports ``logging.config``, and with it sockets, pickle and queues: 25 ms inside gVisor, for one function
    that only applications call. Inside of this block there is a stand-in, which imports the real one when it is called.
    """

    def __init__(self) -> None:
        self._stand_in: ModuleType | None = None

    def __enter__(self) -> None:
        if NAME not in sys.modules:
            self._stand_in = sys.modules[NAME] = type(sys)(NAME)
            self._stand_in.dictConfig = _dict_config  # type: ignore[attr-defined]

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if self._stand_in is not None and sys.modules.get(NAME) is self._stand_in:
            del sys.modules[NAME]


def _dict_config(config: dict[str, object]) -> None:
    from logging.config import dictConfig

    dictConfig(config)
