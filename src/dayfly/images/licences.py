"""The licences of Debian packages, from their copyright files where those can be read by programs (DEP 5).

Such a file names licences in lines ``License: GPL-2+``, the one of most files first. Other files are prose.
"""

from __future__ import annotations

import re
from pathlib import Path

from dayfly.limits import MIB

__all__ = ["deb_licence"]

_READABLE = re.compile(r"^Format(?:-Specification)?:.*(?:copyright-format|dep5|dep-5)", re.IGNORECASE)
_NAME = re.compile(r"^License:[ \t]*(\S.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE)

_LENGTH = 80
"""Characters shown: a line of a table. Some packages have thirty licences."""


def deb_licence(rootfs: Path, package: str) -> str:
    """Short names of the package's licences, or where to read about them."""
    place = f"usr/share/doc/{package}/copyright"
    names = _names(rootfs, place)
    shown = ", ".join(names)
    if not names:
        return f"see /{place}"
    return shown if len(shown) <= _LENGTH else f"{names[0][:_LENGTH]} and others"


def _names(rootfs: Path, place: str) -> list[str]:
    try:
        path = (rootfs / place).resolve(strict=True)
        if not path.is_relative_to(rootfs.resolve()):  # a link of the package's, which the host would follow elsewhere
            return []
        with path.open("rb") as file:
            text = file.read(MIB).decode("utf-8", "replace")
    except (OSError, RuntimeError):  # not there; links in a circle
        return []
    found = _NAME.findall(text) if _READABLE.match(text) else []
    return list(dict.fromkeys(name for name in found if name.isprintable()))
