"""Learn paths of the host from the tables of mounts."""

import os

from verdict import tell

WORDS = os.environ["HOST_PATHS"].split(":")
found, lines = [], 0
for path in ("/proc/self/mountinfo", "/proc/mounts", "/etc/mtab", "/proc/self/mountstats"):
    try:
        for line in open(path):
            lines += 1
            found += [f"{path}: {line.strip()}" for word in WORDS if word in line]
    except OSError:
        pass
tell(found, lines)
