"""Stopping a cell in its tracks. An idle sentry burns 2-4 % of a core; stopped it uses none, and continues within 1 ms."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["Freezer"]


class Freezer:
    """Holds one process by descriptor, so that a later one with the same pid is never signalled."""

    def __init__(self, sentry: int) -> None:
        try:
            self._pidfd: int | None = os.pidfd_open(sentry)
        except ProcessLookupError:
            self._pidfd = None

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        pidfd, self._pidfd = self._pidfd, None
        if pidfd is not None:
            os.close(pidfd)
