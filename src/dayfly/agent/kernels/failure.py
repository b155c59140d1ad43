"""What went wrong in user code, as text: name, value, traceback; and which limit it points to.

Runs inside a kernel. The exception is hostile: its ``__str__`` may raise, block or lie. What blocks is still inside the
run, so it can be interrupted; what raises costs only its own line.
"""

from __future__ import annotations

import errno
import os
import sys

from dayfly.agent.kernels import sources
from dayfly.agent.kernels.records import clip_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from types import CodeType

HERE = os.path.dirname(os.path.dirname((lambda: None).__code__.co_filename))
"""Frames of code below this directory are the agent's own; nobody wants to read them. (In a zip, ``__file__`` differs.)"""

MAX_FRAMES = 60
"""Frames that a traceback shows, its causes included."""

MAX_CHAIN = 10
"""Causes and contexts that are looked at for a limit."""

_BY_ERRNO = {
    errno.ENOMEM: "memory",
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EFBIG: "disk",
    errno.EMFILE: "open_files",
    errno.ENFILE: "open_files",
}


def describe(error: BaseException, hidden: tuple[str, ...] = ()) -> dict[str, object]:
    """``{"name", "value", "traceback"}`` of an exception, without the frames of code below ``HERE`` and ``hidden``."""
    return clip_error(name_of(error), _text(error), _traceback(error, (HERE, *hidden)))


def name_of(error: BaseException) -> str:
    """The name of its class, whatever the class says."""
    name = type.__dict__["__name__"].__get__(type(error))  # a metaclass cannot lie here
    return name if isinstance(name, str) else "Exception"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<its text cannot be had: __str__ failed>"


def _traceback(error: BaseException, hidden: tuple[str, ...]) -> str:
    import traceback  # 3 ms inside gVisor: only when there is something to tell

    sources.expose()

    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        _strip(told, hidden)
        return "".join(_middle_left_out(list(told.format()))).rstrip("\n")
    except Exception as failure:  # a hostile exception, or no memory for it
        return f"{name_of(error)}: {_text(error)}\n<its traceback cannot be had: {name_of(failure)}>"


def _middle_left_out(parts: list[str]) -> list[str]:
    """One part is one frame. Of two functions that call each other for ever, the ends tell all."""
    missing = len(parts) - MAX_FRAMES
    if missing <= 0:
        return parts
    head = MAX_FRAMES // 3
    return [*parts[:head], f"  ... {missing} frames left out ...\n", *parts[head + missing :]]


def _strip(told: traceback.TracebackException, hidden: tuple[str, ...], depth: int = 0) -> None:
    """Take the machinery's frames out, in the causes and contexts too."""
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(hidden)]
    if depth < MAX_CHAIN:
        others = [told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())]
        for other in others:
            if other is not None:
                _strip(other, hidden, depth + 1)


def limit_of(error: BaseException) -> str | None:
    """The field of ``Limits`` that the error comes from, as far as it can be told."""
    seen: BaseException | None = error
    for _ in range(MAX_CHAIN):
        if seen is None:
            return None
        found = _limit_of_one(seen)
        if found is not None:
            return found
        seen = seen.__cause__ or seen.__context__
    return None


def _limit_of_one(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, RuntimeError) and error.args and error.args[0] == "can't start new thread":
        return "processes"
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.EAGAIN and _was_forking(error):
        return "processes"
    found = _BY_ERRNO.get(error.errno or 0)
    return "shm" if found == "disk" and _is_shm(error) else found


def _was_forking(error: BaseException) -> bool:
    """EAGAIN also comes from sockets: look whether the innermost code calls anything like fork or spawn."""
    names: tuple[str, ...] = ()
    step = error.__traceback__
    while step is not None:
        code: CodeType = step.tb_frame.f_code
        names = (*code.co_names, *code.co_freevars)  # free where os.fork is wrapped (see unlimited.py)
        step = step.tb_next
    return any("fork" in name or "spawn" in name for name in names)


def _is_shm(error: OSError) -> bool:
    """Whether the full file system is /dev/shm: by the path, or, as a write has none, by which one is full."""
    path = error.filename
    if isinstance(path, (str, bytes)):
        return os.fsdecode(path).startswith(("/dev/shm/", "/psm_", "/sem."))
    try:
        return os.statvfs("/dev/shm").f_bavail == 0
    except OSError:
        return False


def forget_last() -> None:
    """The interpreter's own references to the last exception would keep its frames, and all their data, alive."""
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        sys.__dict__.pop(name, None)
