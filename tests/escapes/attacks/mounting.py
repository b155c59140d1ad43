"""Mount something, also with the powers of a user namespace of one's own."""

import ctypes
import os

from verdict import tell

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
KINDS = ((b"none", b"tmpfs"), (b"proc", b"proc"), (b"cgroup", b"cgroup"), (b"none", b"cgroup2"), (b"none", b"overlay"))
NEWUSER, NEWNS = 0x10000000, 0x20000
found, tried = [], 0
os.makedirs("/tmp/mnt", exist_ok=True)
before = open("/proc/self/mountinfo").read()
for flags in (0, NEWUSER, NEWUSER | NEWNS):
    child = os.fork()
    if child == 0:
        if flags and libc.unshare(flags):
            os._exit(0)
        done = [libc.mount(source, b"/tmp/mnt", kind, 0, None) for source, kind in KINDS]
        done.append(libc.mount(b"/usr", b"/tmp/mnt", b"none", 4096, None))  # bind
        done.append(libc.mount(b"none", b"/usr", b"none", 4096 | 32, None))  # remount for writing
        written = 0
        try:
            os.close(os.open("/usr/written-by-attack", os.O_CREAT | os.O_WRONLY))
            written = 1
        except OSError:
            pass
        # mounts in a mount namespace of one's own are gVisor's to emulate: they count only if they change something
        os._exit(1 if written or (0 in done and not flags & NEWNS) else 0)
    tried += 1
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:
        found.append(f"mount after unshare({flags:#x})")
if open("/proc/self/mountinfo").read() != before:
    found.append("the mounts of everybody else have changed")
tell(found, tried)
