"""Powers: who this code is, what it may, and how it could come to more."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable
from typing import Any


def status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)


def superuser() -> tuple[int, list[str]]:
    return 2, ["uid 0"] if 0 in (os.getuid(), os.geteuid()) else []


def capabilities(which: list[str]) -> tuple[int, list[str]]:
    held = status()
    return len(which), ["%s %s" % (name, held[name].strip()) for name in which if int(held.get(name, "0"), 16)]


def obtainable(never: dict[str, int]) -> tuple[int, list[str]]:
    """What a program of the superuser's, run from here, could have. ``never``: name to bit."""
    bounding = int(status()["CapBnd"], 16)
    return len(never), [name for name, bit in never.items() if bounding >> bit & 1]


def identity_changed() -> tuple[int, list[str]]:
    found = []
    changes: list[tuple[str, Callable[[Any], None], Any]] = [
        ("setuid", os.setuid, 0),
        ("setgid", os.setgid, 0),
        ("setgroups", os.setgroups, []),
    ]
    for name, change, to in changes:
        try:
            change(to)
            found.append(name)
        except OSError:
            pass
    return 3, found


def marked_files(tops: list[str]) -> tuple[int, list[str]]:
    """Programs with the setuid or setgid bit, or with capabilities of their own."""
    tried, found = 0, []
    for top in tops:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                tried += 1
                try:
                    mode = os.lstat(path).st_mode
                except OSError:
                    continue
                if stat.S_ISREG(mode) and (mode & (stat.S_ISUID | stat.S_ISGID) or capable(path)):
                    found.append(path)
    return tried, found


def capable(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def sudo() -> tuple[int, list[str]]:
    found: list[str] = []
    for name in ("sudo", "su", "doas", "pkexec"):
        program = shutil.which(name)
        if program and name in ("sudo", "doas"):
            done = subprocess.run([program, "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
            if done.returncode == 0:
                found.append(name)
    return 4, found


def unlimited(names: list[str]) -> tuple[int, list[str]]:
    """Resources without a hard limit, or with one that can be raised."""
    found = []
    for name in names:
        kind = getattr(resource, name)
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY or (name == "RLIMIT_CORE" and hard):
            found.append("%s %s" % (name, hard))
            continue
        try:
            resource.setrlimit(kind, (soft, hard + 1))
            found.append("%s raised" % name)
        except (OSError, ValueError):
            pass
    return len(names), found
