"""Files: the host's, the image's, and those in which credentials usually lie."""

from __future__ import annotations

import glob
import os


def host_file(path: str, through: list[str]) -> tuple[int, list[str]]:
    """The host's, by its path, through links in /proc that lead to a root. What is in it is said: the host knows it again."""
    ways = [link + up + path for link in through for up in ("", "/.." * 12)]
    return len(ways), [way + ": " + said for way in ways for said in content(way)]


def above_the_root(path: str) -> tuple[int, list[str]]:
    """From a directory that is held while the root is changed, and from above that one."""
    found = []
    try:
        os.makedirs("/tmp/proof-inner", exist_ok=True)
        handle = os.open("/", os.O_RDONLY)
        os.chroot("/tmp/proof-inner")
        os.fchdir(handle)
        found += content(path[1:])
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        found += content(path)
    except OSError:
        pass
    return 2, found


def content(path: str) -> list[str]:
    """As a list: nothing where it cannot be read."""
    try:
        with open(path) as file:
            said = file.read(100)
    except (OSError, ValueError):
        return []
    return [said] if said else []


def told_paths(words: list[str], tables: list[str]) -> tuple[int, list[str]]:
    """Paths of the host in the tables of mounts."""
    lines = []
    for path in tables:
        try:
            with open(path) as file:
                lines += file.read().splitlines()
        except OSError:
            pass
    return len(lines), [line for line in lines for word in words if word in line]


def made_in(folders: list[str]) -> tuple[int, list[str]]:
    found = []
    for folder in folders:
        path = os.path.join(os.path.expanduser(folder), "written-by-a-proof")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            found.append(path)
            os.unlink(path)
        except OSError:
            pass
    return len(folders), found


def changed(paths: list[str]) -> tuple[int, list[str]]:
    """Opened for writing, renamed or given other rights."""
    found = []
    for path in map(os.path.expanduser, paths):
        for way in (_overwritten, _renamed, _opened_to_all):
            try:
                way(path)
                found.append("%s: %s" % (path, way.__name__[1:]))
            except OSError:
                pass
    return 3 * len(paths), found


def _overwritten(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _renamed(path: str) -> None:
    os.rename(path, path + ".old")
    os.rename(path + ".old", path)


def _opened_to_all(path: str) -> None:
    os.chmod(path, 0o777)


def present(patterns: list[str]) -> tuple[int, list[str]]:
    """Something is there that can be read. A pattern may begin with ``~``, which is every home."""
    homes = {os.path.expanduser("~"), "/root", *glob.glob("/home/*")}
    paths = [home + pattern[1:] for pattern in patterns if pattern[0] == "~" for home in homes]
    paths += [pattern for pattern in patterns if pattern[0] != "~"]
    found = []
    for path in paths:
        for one in glob.glob(path):
            if os.access(one, os.R_OK) and not (os.path.isdir(one) and not os.listdir(one)):
                found.append(one)
    return len(paths), found


def planted(nonce: str, places: list[str]) -> tuple[int, list[str]]:
    """What another sandbox has left."""
    found = []
    for place in places:
        found += glob.glob(os.path.join(os.path.expanduser(place), nonce + "*"))
    return len(places), found


def given_away(places: list[str]) -> tuple[int, list[str]]:
    """A file that is another user's and runs as that one. Tried where files can be made."""
    tried, found = 0, []
    for place in map(os.path.expanduser, places):
        path = os.path.join(place, "proof-of-giving")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o755))
        except OSError:
            continue
        tried += 1
        try:
            os.chown(path, 0, 0)
            os.chmod(path, 0o4755)
            found.append(path)
        except OSError:
            pass
        os.unlink(path)
    return tried, found
