"""What a cell says last: its standard error, as a bounded piece of memory. Hostile text, like all that comes out."""

from __future__ import annotations

import fcntl
import os

from dayfly.boundaries import forks

__all__ = ["Stderr", "last_words"]

SIZE = 64 * 1024
"""Bytes kept: a long traceback. The first ones, since nothing is overwritten."""

_DETAIL_CHARS = 400
"""Of the end of it that are shown: an exception's name and text, or a tool's message."""


class Stderr:
    """Give ``descriptor`` to a process. It cannot fill a disk, and writing to it never blocks: beyond the end it fails."""

    def __init__(self) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.descriptor = forks.keep_from_children(os.memfd_create("dayfly-stderr", flags))
        os.ftruncate(self.descriptor, SIZE)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)

    def text(self) -> bytes:
        return os.pread(self.descriptor, SIZE, 0).rstrip(b"\0") if self.descriptor >= 0 else b""

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            forks.close(descriptor)


def last_words(text: bytes) -> str:
    """The end of what was written, as one printable line."""
    line = " | ".join(part.strip() for part in text.decode("utf-8", "replace").splitlines() if part.strip())
    plain = "".join(char if char.isprintable() else "?" for char in line)
    return plain if len(plain) <= _DETAIL_CHARS else "..." + plain[-_DETAIL_CHARS:]
