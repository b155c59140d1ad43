"""Other processes: those of the host, and pid 1, which is the agent."""

from __future__ import annotations

import ctypes
import os
from typing import Any


def named(nonce: str) -> tuple[int, list[str]]:
    """One with the mark in its command line."""
    tried, found = 0, []
    for pid in pids():
        if pid != os.getpid():
            tried += 1
            if nonce.encode() in content(pid, "cmdline"):
                found.append("pid %d" % pid)
    return tried, found


def signalled(pid: int) -> tuple[int, list[str]]:
    """A pid of the host's, with signal 0."""
    try:
        os.kill(pid, 0)
    except OSError:
        return 1, []
    return 1, ["pid %d" % pid]


def programs(words: list[str]) -> tuple[int, list[str]]:
    """Programs of a host, by name."""
    names = [content(pid, "comm").decode("utf-8", "replace").strip() for pid in pids()]
    return len(names), [name for name in names if any(word in name for word in words)]


def told_by(target: int, harmless: list[str]) -> tuple[int, list[str]]:
    """Variables of its environment that are not among the harmless ones."""
    names = [row.split("=")[0] for row in content(target, "environ").decode("utf-8", "replace").split("\0") if row]
    return 1 + len(names), [name for name in names if name not in harmless]


def memory(target: int) -> tuple[int, list[str]]:
    return 1, ["opened"] if opens("/proc/%d/mem" % target, os.O_RDONLY) else []


def descriptors(target: int) -> tuple[int, list[str]]:
    tried, paths = opened_by(target)
    return tried, [path for path in paths if opens(path, os.O_RDONLY | os.O_NONBLOCK)]


def opened_by(target: int) -> tuple[int, list[str]]:
    """How many it has, the attempt to look counted, and those that are more than a path that anybody may open."""
    try:
        names = os.listdir("/proc/%d/fd" % target)
    except OSError:
        return 1, []
    found = []
    for name in names:
        path = "/proc/%d/fd/%s" % (target, name)
        try:
            if os.readlink(path) != "/dev/null":
                found.append(path)
        except OSError:
            pass
    return 1 + len(names), found


def forged(target: int, said: list[str]) -> tuple[int, list[str]]:
    """Words of one's own, as hexadecimal digits, put into whatever it has open that could lead outside."""
    tried, paths = opened_by(target)
    return tried, [path for path in paths if puts(path, said)]


def forged_everywhere(said: list[str]) -> tuple[int, list[str]]:
    """The same for every process that is none of one's own ancestors."""
    tried = 1
    found: list[str] = []
    own = family()
    for pid in pids():
        if pid not in own:
            ways, reached = forged(pid, said)
            tried, found = tried + ways, found + reached
    return tried, found


def family() -> set[int]:
    """This one and those that it comes from."""
    found, pid = {1}, os.getpid()
    while pid > 1:
        found.add(pid)
        pid = int(content(pid, "stat").rpartition(b")")[2].split()[1])
    return found


def puts(path: str, said: list[str]) -> bool:
    try:
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return sum(os.write(opened, bytes.fromhex(one)) for one in said) > 0
    except OSError:
        return False
    finally:
        os.close(opened)


def root(target: int) -> tuple[int, list[str]]:
    try:
        os.stat("/proc/%d/root/etc" % target)
    except OSError:
        return 1, []
    return 1, ["its root"]


def traced(target: int) -> tuple[int, list[str]]:
    libc = ctypes.CDLL(None, use_errno=True)
    return 1, ["attached"] if libc.ptrace(16, target, 0, 0) == 0 else []


def read_by_call(target: int) -> tuple[int, list[str]]:
    """process_vm_readv, from anywhere: EFAULT says that it was allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(room), 8)
    there = (ctypes.c_size_t * 2)(4096, 8)
    one = ctypes.c_ulong(1)
    done = libc.process_vm_readv(target, here, one, there, one, ctypes.c_ulong(0))
    return 1, ["read"] if done >= 0 or ctypes.get_errno() == 14 else []


def stopped(target: int, number: int) -> tuple[int, list[str]]:
    """A signal to it."""
    try:
        os.kill(target, number)
    except OSError:
        return 1, []
    return 1, ["signal %d" % number]


def left_open() -> tuple[int, list[str]]:
    """Descriptors that were left open by whoever started this: the driver's own are its pipes."""
    tried, found = 0, []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # the one that lists
        tried += 1
        if int(name) > 2 and not target.startswith("pipe:"):
            found.append("%s -> %s" % (name, target))
    return tried, found


def core() -> tuple[int, list[str]]:
    """A crash leaves no memory behind where others could read it."""
    import resource

    reached = [] if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else ["cores may be written"]
    before = set(os.listdir("."))
    child = os.fork()
    if child == 0:
        os.abort()
    status = os.waitpid(child, 0)[1]
    written = set(os.listdir(".")) - before
    return 2, reached + sorted(written) + (["a core was dumped"] if os.WCOREDUMP(status) else [])


def child_for(seconds: float) -> int:
    """One's own child, that does nothing: what a control attacks."""
    import time

    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        ours, theirs = os.pipe()  # what is said to it goes no further
        for number, end in enumerate((ours, theirs, theirs)):
            os.dup2(end, number)
        os.closerange(3, tell)
        os.write(tell, b"x")
        os.closerange(tell, 256)
        time.sleep(seconds)
        os._exit(0)
    os.close(tell)
    os.read(ready, 1)  # only now has it nothing of this one's open
    return child


def own_child(attempt: str, arguments: dict[str, Any]) -> tuple[int, list[str]]:
    """An attempt against one's own child, where it is allowed: the control of those above."""
    found: tuple[int, list[str]] = globals()[attempt](child_for(20), **arguments)
    return found


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def content(pid: int, name: str) -> bytes:
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read(65536)
    except OSError:
        return b""


def opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True
