"""Terminals for commands: made here, handed to the user, resized and typed at."""

from __future__ import annotations

import errno
import fcntl
import os
from _struct import pack

from dayfly.agent.session import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.supervisor import User

TIOCSWINSZ = 0x5414  # Linux, x86 and arm; importing termios for it costs 8 ms inside gVisor
END_OF_INPUT = b"\x04"
MAX_SIZE = 4096
"""Rows and columns; larger ones only make programs allocate."""


def open_terminal(rows: int, cols: int, user: User | None) -> tuple[int, int]:
    """(our end, the command's end). Raises ``OSError``."""
    ours, theirs = os.openpty()
    try:
        resize(ours, rows, cols)
        if user is not None:
            _hand_over(theirs, user)
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    return ours, theirs


def _hand_over(fd: int, user: User) -> None:
    """So that the user may open it by its name as well (ssh, script)."""
    try:
        os.fchown(fd, user.uid, user.gid)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL, errno.EROFS):  # a terminal that works by descriptor only
            raise


def resize(fd: int, rows: int, cols: int) -> None:
    fcntl.ioctl(fd, TIOCSWINSZ, pack("HHHH", rows, cols, 0, 0))


def foreground(fd: int) -> int:
    """The group in the terminal's foreground; 0 if there is none."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:  # no process has it as its controlling terminal (any more)
        return 0


def type_end(fd: int) -> None:
    try:
        os.write(fd, END_OF_INPUT)
    except OSError:  # a full or hung-up terminal: there is nobody to read it
        return


def checked_size(value: object) -> tuple[int, int]:
    """Rows and columns of ``{"rows", "cols"}``. Raises ``BadRequest``."""
    size = value if isinstance(value, dict) else {}
    rows, cols = size.get("rows"), size.get("cols")
    if set(size) != {"rows", "cols"} or type(rows) is not int or type(cols) is not int:
        raise BadRequest("a terminal's size is {rows, cols}")
    if not (1 <= rows <= MAX_SIZE and 1 <= cols <= MAX_SIZE):
        raise BadRequest(f"a terminal has 1 to {MAX_SIZE} rows and columns")
    return rows, cols
