"""Change what other programs or other sandboxes would run."""

import os
import sysconfig

from verdict import CONTROL, tell

FOLDERS = [
    "/",
    "/etc",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/local/bin",
    "/bin",
    "/sbin",
    "/lib",
    "/opt",
    "/var",
    "/root",
    "/.dayfly",
    "/run/dayfly",
    sysconfig.get_paths()["purelib"],
    sysconfig.get_paths()["stdlib"],
]
FILES = ["/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "/usr/bin/python3", "/.dayfly/agent.pyz"]
if CONTROL:
    FOLDERS.append(os.path.expanduser("~"))
found, tried = [], 0
for folder in FOLDERS:
    tried += 1
    try:
        path = os.path.join(folder, "written-by-attack")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        found.append(path)
    except OSError:
        pass
for path in FILES:
    for way in (
        lambda p: os.close(os.open(p, os.O_WRONLY)),
        lambda p: os.rename(p, p + ".old"),
        lambda p: os.chmod(p, 0o777),
    ):
        tried += 1
        try:
            way(path)
            found.append(path)
        except OSError:
            pass
tell(found, tried)
