"""``dayfly setup``: make this machine able to run sandboxes, without root and without touching the system."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from dayfly.cli.building import build_image
from dayfly.cli.called import typeable
from dayfly.cli.endings import guarded, note, say
from dayfly.cli.machine import usable_paths
from dayfly.cli.progress import reporting
from dayfly.errors import BoundaryUnusable, ImageNotFound, InputError
from dayfly.images import Store
from dayfly.obtain import obtain
from dayfly.paths import Paths
from dayfly.policy import DEFAULT_IMAGE
from dayfly.runtime import explain_age, find_runsc

__all__ = ["setup"]

_SOURCES = ("distribution", "release", "go")


@guarded
def setup(
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="distribution|release|go|PATH", help="Get runsc from there, even if there is one."
        ),
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option(help=f"Image to build if it is missing (default: {DEFAULT_IMAGE}).")
    ] = None,
) -> int:
    """Find or obtain gVisor's runsc, and build the image that sandboxes run in.

    By default runsc comes from the distribution's packages; release asks gVisor's own site, go builds its current source.
    """
    _check(source)
    paths = usable_paths()
    _runtime(source, paths)
    for name in image or [DEFAULT_IMAGE]:
        _image(name, paths)
    say(typeable("ready. Try: dayfly run -c 'print(6 * 7)'"))
    return 0


def _check(source: str | None) -> None:
    """A word that names no source is refused as one, before anything is fetched."""
    if source is None or source in _SOURCES or Path(source).expanduser().is_file():
        return
    near = difflib.get_close_matches(source, _SOURCES, 1)
    known = "--from takes distribution, release, go, or the PATH of a runsc"
    problem = "is neither a source nor a file"
    raise InputError(f"--from {source}: {problem}", remedy=f"did you mean {near[0]}? {known}" if near else known)


def _runtime(source: str | None, paths: Paths) -> None:
    if source is None:
        try:
            found = find_runsc(paths)
        except BoundaryUnusable as problem:
            note(problem.message)
        else:
            note(f"runsc: {found.path} ({explain_age(found)})")
            return
    with reporting("runsc") as progress:
        found = obtain(source, paths=paths, progress=progress)
    note(f"runsc: {found.path} ({explain_age(found)})")


def _image(name: str, paths: Paths) -> None:
    try:
        found = Store(paths).resolve(name)
    except ImageNotFound:
        found = build_image(name, paths)
    note(f"image {name}: {found.digest[:19]}, {', '.join(found.languages)}")
