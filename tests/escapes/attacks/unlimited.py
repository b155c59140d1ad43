"""Have a resource without a hard limit, or raise one."""

import resource

from verdict import tell

NAMES = ["RLIMIT_CORE", "RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_DATA"]
found = []
for name in NAMES:
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY or (name == "RLIMIT_CORE" and hard):
        found.append(f"{name} {hard}")
        continue
    try:
        resource.setrlimit(kind, (soft, hard + 1))
        found.append(f"{name} raised")
    except (OSError, ValueError):
        pass
tell(found, len(NAMES))
