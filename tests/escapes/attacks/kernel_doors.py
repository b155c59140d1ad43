"""Write to kernel settings, and call what changes a kernel."""

import ctypes
import os

from verdict import CONTROL, tell

PATHS = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sysrq-trigger",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/fs/binfmt_misc/register",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/memory/release_agent",
    "/proc/1/oom_score_adj",
    "/proc/kcore",
]
CALLS = {
    "init_module": 175,
    "finit_module": 313,
    "kexec_load": 246,
    "bpf": 321,
    "perf_event_open": 298,
    "reboot": 169,
    "swapon": 167,
    "acct": 163,
    "settimeofday": 164,
    "open_by_handle_at": 304,
    "pivot_root": 155,
}
if CONTROL:
    PATHS.append("/tmp/a-file")
    CALLS["getpid"] = 39
found = []
for path in PATHS:
    try:
        os.close(os.open(path, os.O_WRONLY | (os.O_CREAT if CONTROL and path.startswith("/tmp") else 0)))
        found.append(path)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
for name, number in CALLS.items():
    if libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0) >= 0:
        found.append(name)
tell(found, len(PATHS) + len(CALLS))
