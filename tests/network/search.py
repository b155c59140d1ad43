"""Where a text lies inside: in every file, environment and command line that code can read."""

from __future__ import annotations

from dayfly import AsyncSandbox
from tests.network.world import python

__all__ = ["places_of"]

MARK = "a-mark-that-the-search-itself-must-find"

SEARCH = """
import pathlib
needles = [one[::-1].encode() for one in sys.argv[1:]]
places = [*pathlib.Path("/proc").glob("[0-9]*/environ"), *pathlib.Path("/proc").glob("[0-9]*/cmdline")]
for top in ("/home", "/root", "/tmp", "/run", "/etc", "/var", "/opt", "/srv"):
    places += [one for one in pathlib.Path(top).rglob("*") if one.is_file()]
for place in places:
    try:
        data = place.read_bytes()
    except OSError:
        continue
    for number, needle in enumerate(needles):
        if needle in data:
            print(number, place)
"""
"""Backwards, so that it does not find its own arguments."""


async def places_of(sandbox: AsyncSandbox, *texts: str) -> list[str]:
    """Of any of ``texts``. The same search finds a mark in a file and in an environment, or this fails: it is the control."""
    await sandbox.files.write("mark", MARK.encode())
    done = await python(sandbox, SEARCH, *(one[::-1] for one in (MARK, *texts)), env={"MARKED": MARK})
    assert done.ok, done
    found = [line.partition(" ")[::2] for line in done.text.splitlines()]
    marked = [place for number, place in found if number == "0"]
    assert any(place.endswith("/mark") for place in marked), done
    assert any(place.endswith("/environ") for place in marked), done
    await sandbox.files.remove("mark")
    return [place for number, place in found if number != "0"]
