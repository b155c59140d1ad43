"""Mount something, also with the powers of a user namespace of one's own."""

import ctypes
import os

from verdict import tell

libc = ctypes.CDLL(None, use_errno=True)
found, tried = [], 0
os.makedirs("/tmp/mnt", exist_ok=True)
for flags in (0, 0x10000000, 0x10000000 | 0x20000):
    child = os.fork()
    if child == 0:
        if flags and libc.unshare(flags):
            os._exit(0)
        kinds = (
            (b"none", b"tmpfs"),
            (b"proc", b"proc"),
            (b"cgroup", b"cgroup"),
            (b"none", b"cgroup2"),
            (b"none", b"overlay"),
        )
        for source, kind in kinds:
            if libc.mount(source, b"/tmp/mnt", kind, 0, None) == 0:
                os._exit(1)
        if (
            libc.mount(b"/usr", b"/tmp/mnt", b"none", 4096, None) == 0
            or libc.mount(b"none", b"/usr", b"none", 32, None) == 0
        ):
            os._exit(1)
        os._exit(0)
    tried += 1
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:
        found.append(f"mount after unshare({flags:#x})")
tell(found, tried)
