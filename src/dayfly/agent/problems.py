"""Why a file operation did not happen, in the words of ``dayfly.errors.FileProblem`` (which cannot be imported here)."""

from __future__ import annotations

import errno
import os

from dayfly.agent.session import Refused

NOT_FOUND = "not_found"
EXISTS = "exists"
IS_DIRECTORY = "is_directory"
NOT_DIRECTORY = "not_directory"
NOT_EMPTY = "not_empty"
NOT_REGULAR = "not_regular"
UNSAFE_PATH = "unsafe_path"
DENIED = "denied"
TOO_LARGE = "too_large"
NO_SPACE = "no_space"
OTHER = "other"

_BY_ERRNO = {
    errno.ENOENT: NOT_FOUND,
    errno.EEXIST: EXISTS,
    errno.EISDIR: IS_DIRECTORY,
    errno.ENOTDIR: NOT_DIRECTORY,
    errno.ENOTEMPTY: NOT_EMPTY,
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.EROFS: DENIED,
    errno.ENOSPC: NO_SPACE,
    errno.EDQUOT: NO_SPACE,
    errno.EFBIG: TOO_LARGE,
    errno.ENAMETOOLONG: UNSAFE_PATH,
    errno.ELOOP: UNSAFE_PATH,
    errno.ENXIO: NOT_REGULAR,
    errno.ENODEV: NOT_REGULAR,
}


def trouble(problem: str, detail: str = "") -> Refused:
    """To be raised: the channel fails with ``problem``."""
    return Refused(problem, detail or problem.replace("_", " "))


def translated(error: OSError) -> Refused:
    number = error.errno or 0
    return trouble(_BY_ERRNO.get(number, OTHER), os.strerror(number))
