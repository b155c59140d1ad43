"""The command line: ``dayfly run``, ``shell``, ``setup``, ``doctor`` and ``images``. One file for each group of commands."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with ``sys.argv`` and exit with one of ``dayfly.cli.endings.Ending``."""
    try:
        from dayfly.cli.app import app

        app(prog_name="dayfly")
    except KeyboardInterrupt:  # while this was still being imported; the commands have their own guard
        sys.stderr.write("dayfly: interrupted\n")
        sys.exit(130)
