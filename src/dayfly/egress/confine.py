"""What the gateway gives up before it hears anything: it needs sockets, and nothing else of this machine."""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

__all__ = ["confine"]

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_NOBODY = 65534


def confine() -> None:
    """After everything is imported: as nobody the process may not be able to read the library's files any more.

    What cannot be given up (an ordinary user's identity) stays; nothing here raises for that.
    """
    _limit()
    os.umask(0o077)
    os.chdir("/")
    if os.geteuid() == 0:
        _become_nobody()
    libc = ctypes.CDLL(None, use_errno=True)
    _drop_capabilities(libc)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process of that user may look into this one
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # last: a change of the user takes it back


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes to no file
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _become_nobody() -> None:
    try:
        entry = pwd.getpwnam("nobody")
        uid, gid = entry.pw_uid, entry.pw_gid
    except KeyError:
        uid = gid = _NOBODY
    steps: list[Callable[[], None]] = [
        lambda: os.setgroups([]),
        lambda: os.setresgid(gid, gid, gid),
        lambda: os.setresuid(uid, uid, uid),
    ]
    for give_up in steps:
        with suppress(OSError):  # in a user namespace in which nobody has no number
            give_up()


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """What is left of them where the user stays root of a namespace."""
    nothing = (ctypes.c_uint32 * 6)()
    libc.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), nothing)
