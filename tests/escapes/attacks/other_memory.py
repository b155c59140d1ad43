"""Read the memory, descriptors and registers of the agent."""

import ctypes
import os

from verdict import CONTROL, tell

target = 1
if CONTROL:
    target = os.fork()
    if target == 0:
        import time

        time.sleep(20)
        os._exit(0)
found = []
libc = ctypes.CDLL(None, use_errno=True)
try:
    with open(f"/proc/{target}/mem", "rb"):
        found.append("mem")
except OSError:
    pass
try:
    for name in os.listdir(f"/proc/{target}/fd"):
        try:
            if os.readlink(f"/proc/{target}/fd/{name}") == "/dev/null":
                continue  # a path that anybody may open
            os.close(os.open(f"/proc/{target}/fd/{name}", os.O_RDONLY | os.O_NONBLOCK))
            found.append(f"fd {name}")
        except OSError:
            pass
except OSError:
    pass
try:
    os.listdir(f"/proc/{target}/root/")
    os.stat(f"/proc/{target}/root/etc")
    found.append("root")
except OSError:
    pass
if libc.ptrace(16, target, 0, 0) == 0:
    found.append("ptrace")
try:
    os.kill(target, 9 if CONTROL else 19)
    found.append("signal")
except OSError:
    pass
tell(found, 5)
