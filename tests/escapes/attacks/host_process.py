"""Find a process of the host in /proc, or by probing numbers with signal 0."""

import os

from verdict import NONCE, tell

found, tried = [], 0
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        tried += 1
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        if NONCE.encode() in line:
            found.append(f"{name}: {line[:80]!r}")
target = int(os.environ.get("HOST_PID", "0"))
if target:
    tried += 1
    try:
        os.kill(target, 0)
        found.append(f"signal 0 to {target}")
    except OSError:
        pass
tell(found, tried)
