"""Removing: one entry by the file worker, whole trees by a process of their own."""

from __future__ import annotations

import os
import stat
from itertools import islice

from dayfly.agent import content, problems
from dayfly.agent.descent import Descent
from dayfly.agent.errands import Errand, Report
from dayfly.agent.paths import Finder
from dayfly.agent.problems import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel, Task

BATCH = 4096
"""Entries that are looked at together: a directory of any size is emptied batch by batch."""


def remove(agent: Agent, channel: Channel, params: dict[str, Any]) -> Task:
    if params["recursive"]:
        return Errand(agent, channel, removed, params)
    return content.asked(agent, channel, "remove", {"path": params["path"]})


def removed(report: Report, finder: Finder, params: dict[str, Any]) -> dict[str, object]:
    """The entry, and all below it if it is a directory; links are removed, never followed."""
    with finder.find(params["path"], follow=False) as place:
        found = place.status()
        if found is None:
            raise trouble(problems.NOT_FOUND)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(place.name, dir_fd=place.directory)
            return {"removed": 1}
        if place.name == b".":
            raise trouble(problems.UNSAFE_PATH, "the root directory")
        directory = place.open_directory()
        try:
            with Descent(directory) as way:
                count = _emptied(way)
        finally:
            os.close(directory)
        os.rmdir(place.name, dir_fd=place.directory)
        return {"removed": count + 1}


def _emptied(way: Descent) -> int:
    """Empty the directory where we are; ``memory`` holds a level's subdirectories that are still to be entered."""
    count = 0
    while True:
        if way.memory:
            _enter(way, way.memory.pop())
            continue
        gone, way.memory, empty = _clear_batch(way.directory)
        count += gone
        if not empty:
            continue
        if not way.depth:
            return count
        name = way.up()
        if _gone(os.rmdir, name, way.directory):
            count += 1


def _enter(way: Descent, name: bytes) -> None:
    try:
        way.down(name)
    except (FileNotFoundError, NotADirectoryError):  # removed or exchanged meanwhile: the next look at the level tells
        return


def _clear_batch(directory: int) -> tuple[int, list[bytes], bool]:
    """(how many entries went, subdirectories met, whether there was nothing at all)."""
    with os.scandir(directory) as found:
        batch = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in islice(found, BATCH)]
    gone = sum(_gone(os.unlink, name, directory) for name, is_directory in batch if not is_directory)
    return gone, [name for name, is_directory in batch if is_directory], not batch


def _gone(take: Any, name: bytes, directory: int) -> bool:
    try:
        take(name, dir_fd=directory)
    except FileNotFoundError:  # somebody else was faster
        return False
    return True
