"""What this machine has for a command, looked at before anything is started."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from dayfly.errors import HostError, ImageNotFound, UnknownLanguage
from dayfly.images import Store
from dayfly.paths import Paths, default_paths
from dayfly.spec import Image

__all__ = ["image_of", "language_in", "usable_paths"]

_ALIASES = {
    "js": "javascript",
    "node": "javascript",
    "nodejs": "javascript",
    "sh": "bash",
    "shell": "bash",
    "py": "python",
    "python3": "python",
}


def usable_paths() -> Paths:
    """This user's places. Raises ``HostError`` if what is there cannot be a data directory."""
    paths = default_paths()
    problem = _problem(paths.data)
    if problem:
        where = "DAYFLY_DATA" if os.environ.get("DAYFLY_DATA") else "the data directory"
        raise HostError(f"{where} {paths.data}: {problem}", remedy="set DAYFLY_DATA to a directory of yours")
    return paths


def _problem(data: Path) -> str | None:
    place = next(path for path in (data, *data.parents) if os.path.lexists(path))
    if not place.is_dir():
        return "is not a directory" if place == data else f"{place} is not a directory"
    if not os.access(place, os.R_OK | os.X_OK):
        return "cannot be read by this user"
    return None


def image_of(name: str) -> Image:
    """The built image of that name. Raises ``ImageNotFound`` or ``HostError``."""
    store = Store(usable_paths())
    try:
        return store.resolve(name)
    except ImageNotFound as error:
        if store.list():
            raise
        message = f"no image {name!r}: nothing is set up in {store.directory.parent} yet"
        raise ImageNotFound(message, remedy="run: dayfly setup") from error


def language_in(image: Image, wanted: str) -> str:
    """The language of ``image`` that is meant by ``wanted``. Raises ``UnknownLanguage``."""
    word = wanted.lower()
    name = _ALIASES.get(word, word)
    if name in image.languages:
        return name
    near = difflib.get_close_matches(name, image.languages, 1)
    there = f"there is {', '.join(image.languages)}"
    remedy = f"did you mean {near[0]}? {there}" if near else there
    raise UnknownLanguage(f"no {wanted!r} in the image {image.name!r}", remedy=remedy)
