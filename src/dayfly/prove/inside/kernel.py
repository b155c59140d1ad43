"""The kernel's own doors: calls that change it, its settings, devices, what it tells of the host."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENODEV, errno.EOPNOTSUPP)
"""Not given, or not there. Any other error is of somebody who has looked at the arguments, so the call itself was let through."""


ON_ARM64 = {
    "acct": 89,
    "add_key": 217,
    "bpf": 280,
    "finit_module": 273,
    "init_module": 105,
    "io_uring_setup": 425,
    "kexec_file_load": 294,
    "kexec_load": 104,
    "open_by_handle_at": 265,
    "perf_event_open": 241,
    "pivot_root": 41,
    "reboot": 142,
    "request_key": 218,
    "settimeofday": 170,
    "swapoff": 225,
    "swapon": 224,
    "userfaultfd": 282,
}
"""Numbers by name, of Linux' asm-generic/unistd.h. There is no iopl and no ioperm."""


def calls(numbers: dict[str, list[int]]) -> tuple[int, list[str]]:
    """System calls with arguments that do nothing where they are let through. ``numbers``: name to number on x86-64 and arguments.

    Raises ``OSError`` where this machine's number of one is not known."""
    words = {name: [number_here(name, given[0]), *given[1:]] for name, given in numbers.items()}
    libc = ctypes.CDLL(None, use_errno=True)
    return len(words), [name for name, one in words.items() if let_through(libc, one)]


def number_here(name: str, on_x86: int) -> int:
    machine = os.uname().machine
    if machine == "x86_64":
        return on_x86
    if machine == "aarch64" and name in ON_ARM64:
        return ON_ARM64[name]
    raise OSError("the numbers are those of x86-64, and this machine has none that is known for %s" % name)


def let_through(libc: ctypes.CDLL, words: list[int]) -> bool:
    ctypes.set_errno(0)
    whole = words + [0] * (7 - len(words))  # what is left out would be what lies in a register
    return libc.syscall(*map(ctypes.c_long, whole)) >= 0 or ctypes.get_errno() not in REFUSED


def writable(paths: list[str]) -> tuple[int, list[str]]:
    """Opened for writing, and nothing written."""
    return len(paths), [path for path in paths if opened(path, os.O_WRONLY)]


def readable(paths: list[str]) -> tuple[int, list[str]]:
    """They have something in them."""
    found = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                if file.read(64).strip(b"\0 \n"):
                    found.append(path)
        except OSError:
            pass
    return len(paths), found


def devices(names: list[str]) -> tuple[int, list[str]]:
    return len(names), [name for name in names if opened("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK)]


def node(kind: int, major: int, minor: int) -> tuple[int, list[str]]:
    """A device of one's own making, opened. ``kind``: the bits of its mode."""
    made = "/tmp/proof-device"
    try:
        os.mknod(made, kind | 0o600, os.makedev(major, minor))
    except OSError:
        return 1, []
    found = ["made and opened"] if opened(made, os.O_RDONLY | os.O_NONBLOCK) else []
    os.unlink(made)
    return 1, found


def identity(field: str, host: str, path: str | None = None) -> tuple[int, list[str]]:
    """What identifies the host, read here. ``path``: from another place than the usual one."""
    mine = text(path) if path else IDENTITIES[field]()
    return 1, [field] if mine and mine == (mine if host == "mine" else host) else []


def text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def memory() -> str:
    rows = text("/proc/meminfo").splitlines()
    return next((row.split()[1] for row in rows if row.startswith("MemTotal")), "")


IDENTITIES: dict[str, Callable[[], str]] = {
    "hostname": socket.gethostname,
    "machine id": lambda: text("/etc/machine-id"),
    "boot id": lambda: text("/proc/sys/kernel/random/boot_id"),
    "kernel": lambda: os.uname().release + os.uname().version,
    "memory": memory,
    "product uuid": lambda: text("/sys/class/dmi/id/product_uuid"),
    "command line": lambda: text("/proc/cmdline"),
}


def opened(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True


def mounts(flags: int, own: bool) -> tuple[int, list[str]]:
    """Mount something; ``own``: in a mount namespace of one's own, where it counts only if it changes what others see."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
    os.makedirs("/tmp/proof-mount", exist_ok=True)
    before = text("/proc/self/mountinfo")
    child = os.fork()
    if child == 0:
        os._exit(_mounted(libc, flags, own))
    code = os.waitpid(child, 0)[1] >> 8
    found = ["mounted"] if code else []
    return 7, found + (["the mounts of everybody else have changed"] if text("/proc/self/mountinfo") != before else [])


def _mounted(libc: ctypes.CDLL, flags: int, own: bool) -> int:
    if flags and libc.unshare(flags):
        return 0
    kinds = (
        (b"none", b"tmpfs"),
        (b"proc", b"proc"),
        (b"cgroup", b"cgroup"),
        (b"none", b"cgroup2"),
        (b"none", b"overlay"),
    )
    done = [libc.mount(source, b"/tmp/proof-mount", kind, 0, None) for source, kind in kinds]
    done.append(libc.mount(b"/usr", b"/tmp/proof-mount", b"none", 4096, None))  # bind
    done.append(libc.mount(b"none", b"/usr", b"none", 4096 | 32, None))  # remount for writing
    written = opened("/usr/written-by-a-proof", os.O_CREAT | os.O_WRONLY)
    return 1 if written or (0 in done and not own) else 0
