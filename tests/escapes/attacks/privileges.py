"""Have capabilities, or a way to gain some."""

import ctypes
import os
import stat

from verdict import tell

status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
found = []
if os.getuid() == 0 or os.geteuid() == 0:
    found.append("uid 0")
for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
    if int(status.get(name, "0"), 16):
        found.append(f"{name} {status[name]}")
if ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) != 1:  # PR_GET_NO_NEW_PRIVS
    found.append("privileges can be gained by exec")
for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([])):
    try:
        change()
        found.append("identity changed")
    except OSError:
        pass
for top in ("/usr/bin", "/usr/sbin", "/usr/lib", "/bin", "/sbin"):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                mode = os.lstat(os.path.join(folder, name)).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                found.append(os.path.join(folder, name))
tell(found, 9)
