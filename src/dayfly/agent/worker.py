"""The file worker: a child with the user's rights on files, out of reach of the user's code.

Its effective uid is the user's, its real and saved ones are the agent's: so the kernel lets it do to files what the user
may do and nothing more, and lets no process of the user signal, stop or trace it. (Pid 1 itself may not change its
effective uid: in the 2024 gVisor, code of that uid could then open pid 1's descriptors through /proc.) It holds no
descriptor but a socket, which cannot be opened through /proc.
"""

from __future__ import annotations

import os
from _socket import SCM_RIGHTS, SOL_SOCKET

from dayfly.agent import problems
from dayfly.agent.files import Files
from dayfly.agent.paths import Finder
from dayfly.agent.session import Refused
from dayfly.wire.messages import dump_json, load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

MAX_MESSAGE = 512 * 1024
"""Bytes of one request or answer: a page of a listing, or two paths."""

OPERATIONS = frozenset(("stat", "list", "mkdir", "rename", "remove", "read", "write", "commit", "abort"))


def serve(files: Files, control: socket) -> None:
    """Answer requests until the agent closes its end."""
    os.umask(0)  # modes are given exactly
    while True:
        request = control.recv(MAX_MESSAGE)
        if not request:
            return
        answer, handle = answered(files, load_json(request))
        rights = [(SOL_SOCKET, SCM_RIGHTS, handle.to_bytes(4, "little"))] if handle >= 0 else []
        control.sendmsg([dump_json(answer)], rights)
        if handle >= 0:
            os.close(handle)


def answered(files: Files, request: Any) -> tuple[dict[str, object], int]:
    """``{"value"}`` or ``{"problem", "detail"}``, and the descriptor to send along."""
    try:
        if request["op"] not in OPERATIONS:
            raise problems.trouble(problems.OTHER, "no such operation")
        value, handle = getattr(files, request["op"])(request["params"])
    except Refused as error:
        return {"problem": error.code, "detail": str(error)[:500]}, -1
    except OSError as error:
        refused = problems.translated(error)
        return {"problem": refused.code, "detail": str(refused)[:500]}, -1
    except Exception as error:
        return {"problem": problems.OTHER, "detail": f"{type(error).__name__}: {error!s:.300}"}, -1
    return {"value": value}, handle


def finder_for(uid: int, gid: int, home: str) -> Finder:
    return Finder(uid, gid, home)
