"""Recognise the host by what identifies it."""

import json
import os
import socket

from verdict import CONTROL, tell


def read(path):
    try:
        return open(path).read().strip()
    except OSError:
        return ""


mine = {
    "hostname": socket.gethostname(),
    "machine id": read("/etc/machine-id"),
    "boot id": read("/proc/sys/kernel/random/boot_id"),
    "kernel": os.uname().release + os.uname().version,
    "memory": next((line.split()[1] for line in read("/proc/meminfo").splitlines() if line.startswith("MemTotal")), ""),
    "product uuid": read("/sys/class/dmi/id/product_uuid"),
    "command line": read("/proc/cmdline"),
}
host = mine if CONTROL else json.loads(os.environ["HOST_IDENTITY"])
tell([name for name, value in mine.items() if value and host.get(name) == value], len(mine))
