"""The gateway's process: started with one socket, an environment of nothing, and this very package."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from dayfly.boundaries import forks
from dayfly.boundaries.processes import SYSTEM_PATH, Child, Program, in_spawner, own
from dayfly.boundaries.stderr import Stderr, last_words
from dayfly.egress import packets

__all__ = ["Process"]

# Isolated (-I) Python sees neither PYTHONPATH nor this directory. The package is loaded from where this one is, under its name
# and without that directory on the path, where other modules may lie; what it needs comes last on the path.
_BOOT = """
import importlib.util as u, runpy, sys
home, *rest = sys.argv[1:]
sys.argv[1:] = []
s = u.spec_from_file_location("dayfly", home + "/__init__.py", submodule_search_locations=[home])
sys.modules["dayfly"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
sys.path += [p for p in rest if p not in sys.path]
runpy.run_module("dayfly.egress", run_name="__main__", alter_sys=True)
"""


class Process:
    """One started gateway and our end of its socket. Any error on the way leaves nothing."""

    def __init__(self, child: Child, end: socket.socket, stderr: Stderr) -> None:
        self.end = end
        self.said = ""  # at its end, where it had not begun yet
        self._stderr = stderr
        self._child = child

    @classmethod
    async def start(cls, within: Sequence[str] = (), roots: Path | None = None) -> Process:
        """``within``: a program that starts another one, and its arguments. ``roots``: a file of certificates that servers are verified
        by, instead of this machine's. Raises ``OSError``."""
        ours, theirs = packets.pair()
        forks.keep_from_children(ours.fileno())
        forks.keep_from_children(theirs.fileno())
        stderr = Stderr()
        program = Program(
            argv=[*within, *_command()],
            stdin=theirs.fileno(),
            stdout=stderr.descriptor,
            stderr=stderr.descriptor,
            environment={"PATH": SYSTEM_PATH, **_roots(roots)},
            directory=Path("/"),
        )
        try:
            child = await own(in_spawner(lambda: Child.start(program)), _undo)
        except BaseException:
            close_private(ours)
            stderr.close()
            raise
        finally:
            close_private(theirs)
        return cls(child, ours, stderr)

    @property
    def pid(self) -> int:
        return self._child.pid

    def began(self) -> None:
        """What it says on standard error from now on is nobody's."""
        self._stderr.close()

    async def end_now(self) -> int:
        """Kill it, and return its return code when it is gone. The socket stays the caller's."""
        self._child.kill()
        await self._child.ended()
        self.said = last_words(self._stderr.text())
        self._stderr.close()
        return self._child.reap()


def _command() -> list[str]:
    home = Path(__file__).absolute().parents[1]
    return [sys.executable, "-I", "-c", _BOOT, str(home), *(path for path in sys.path if Path(path).is_absolute())]


def _roots(file: Path | None) -> dict[str, str]:
    """Where OpenSSL looks for certificates: as for every program of whoever started this, if they have said so."""
    if file is not None:
        return {"SSL_CERT_FILE": str(file)}
    found = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)}
    return {name: _from_here(found[name], os.pathsep if name == "SSL_CERT_DIR" else None) for name in found}


def _from_here(paths: str, separator: str | None) -> str:
    """The gateway starts in ``/``; whoever has named a relative path is elsewhere."""
    each = paths.split(separator) if separator else [paths]
    return (separator or "").join(str(Path(one).absolute()) for one in each if one)


def _undo(child: Child) -> None:
    child.kill()
    child.wait(10)
    child.reap()


def close_private(end: socket.socket) -> None:
    """Close a socket that was kept from children. Idempotent."""
    if end.fileno() >= 0:
        forks.close(end.detach())
