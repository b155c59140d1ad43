"""Caches that libraries make at their first use (matplotlib's list of fonts), made once for all sandboxes of an image.

The code of an image never runs on the host: a door passes in a function that runs it in a throw-away sandbox.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path, PurePosixPath

from dayfly.errors import HostError
from dayfly.limits import MIB
from dayfly.paths import host_error
from dayfly.spec import Image

__all__ = ["RunInside", "warm"]

RunInside = Callable[[Image, str], bytes]
"""Runs Python source in a throw-away sandbox of the image and returns its stdout, bounded. Given by the door."""

# What comes out is hostile: capped, only plain files below two directories of the home, never through a link.
_OUTPUT_CAP = 16 * MIB
_FILES_CAP = 200
_PLACES = (".cache", ".config")


def warm(image: Image, code: str, run_inside: RunInside) -> int:
    """Run ``code`` inside and keep what it cached in the image's home; return the number of files.

    Raises ``HostError`` if what comes back is not what ``inside`` prints, and whatever ``run_inside`` raises.
    """
    source = (resources.files("dayfly.images") / "inside.py").read_text("utf-8")
    output = run_inside(image, f"{source}\nprint(collect({code!r}))\n")
    files = _parse(output)
    home = image.rootfs / "home/user"
    try:
        for name, content in files.items():
            _write(home, PurePosixPath(name).parts, content)
    except OSError as error:
        raise host_error(error, "cannot keep the warmed caches") from error
    return len(files)


def _parse(output: bytes) -> dict[str, bytes]:
    if len(output) > _OUTPUT_CAP:
        raise HostError("the warmed caches are too large", remedy=_REMEDY)
    try:
        value = json.loads(output.strip().rsplit(b"\n", 1)[-1])
        files = {name: base64.b64decode(text, validate=True) for name, text in value.items()}
    except (ValueError, AttributeError, TypeError, RecursionError, binascii.Error) as error:
        raise HostError("warming the image gave no list of files", remedy=_REMEDY) from error
    if len(files) > _FILES_CAP or not all(map(_is_safe, files)):
        raise HostError("warming the image gave files where none belong", remedy=_REMEDY)
    return files


_REMEDY = "look at what the recipe's warm code and its packages do when they are imported"


def _is_safe(name: str) -> bool:
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") and "\0" not in part and len(part) < 200 for part in parts)
    return plain and 1 < len(parts) < 10 and parts[0] in _PLACES


def _write(home: Path, parts: tuple[str, ...], content: bytes) -> None:
    """Open to the one user inside, who is another uid than the builder."""
    directory = home
    for part in parts[:-1]:
        directory = directory / part
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    path = directory / parts[-1]
    with path.open("xb") as file:
        file.write(content)
    path.chmod(0o666)
