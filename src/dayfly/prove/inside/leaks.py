"""What may have come in with the sandbox that is somebody's: variables, command lines."""

from __future__ import annotations

import os


def variables(words: list[str]) -> tuple[int, list[str]]:
    """Their names alone."""
    return len(os.environ), [name for name in os.environ if any(word in name.upper() for word in words)]


def value_anywhere(reversed_value: str, files: list[str]) -> tuple[int, list[str]]:
    """A value of the host's, in what can be read of any process. It comes reversed, so that nobody here has it."""
    value = reversed_value[::-1]
    tried = len(os.environ)
    found = ["variable " + name for name, held in os.environ.items() if value in held or value in name]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in files:
            tried += 1
            try:
                with open("/proc/%s/%s" % (pid, name), "rb") as file:
                    if value.encode() in file.read():
                        found.append("/proc/%s/%s" % (pid, name))
            except OSError:
                pass
    return tried, found


MOST_FILE = 4 << 20  # bytes of one file: a list of certificates has some 200 kB


def value_in_files(reversed_value: str, tops: list[str]) -> tuple[int, list[str]]:
    """A value that nobody here has: it comes reversed."""
    value, tried, found = reversed_value[::-1].encode(), 0, []
    for top in tops:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                tried += 1
                try:
                    if not os.path.isfile(path):
                        continue  # to open a pipe is to wait for whoever writes to it
                    with open(path, "rb") as file:
                        if value in file.read(MOST_FILE):
                            found.append(path)
                except OSError:
                    pass
    return tried, found


def sockets(patterns: list[str], names: list[str]) -> tuple[int, list[str]]:
    """Of agents that hold keys: paths, and variables that lead to them."""
    import glob

    found = [path for pattern in patterns for path in glob.glob(pattern)]
    return len(patterns) + len(names), found + [name for name in names if name in os.environ]
