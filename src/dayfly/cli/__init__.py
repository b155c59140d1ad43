"""The command line. One file for each command or group of them; ``dayfly.cli.commands`` has the list."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with ``sys.argv`` and exit with one of ``dayfly.cli.endings.Ending``."""
    try:
        _open_streams()
        from dayfly.cli.app import app
        from dayfly.cli.usage import told

        sys.exit(told(app))
    except KeyboardInterrupt:  # while this was still being imported; the commands have their own guard
        sys.stderr.write("dayfly: interrupted\n")
        sys.exit(130)


def _open_streams() -> None:
    """A stream that the caller closed goes nowhere. Else the next file that is opened would take its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115  # for the whole life of the process
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115
