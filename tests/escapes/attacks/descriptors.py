"""Use descriptors that were left open by whoever started this."""

import os

from verdict import tell

found = []
seen = 0
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue  # the one that lists
    seen += 1
    if int(name) > 2:
        found.append(f"{name} -> {target}")
tell(found, seen)
