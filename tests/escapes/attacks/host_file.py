"""Read a file of the host by its path, through links in /proc, and after changing the root twice."""

import os

from verdict import NONCE, tell

PATH = os.environ["CANARY_FILE"]
ways = [PATH]
for link in ("/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/self/cwd", "/proc/thread-self/root"):
    ways += [link + PATH, link + "/.." * 12 + PATH]
ways.append("/.." * 12 + PATH)
found = []
for way in ways:
    try:
        with open(way) as file:
            if NONCE in file.read():
                found.append(way)
    except OSError:
        pass
child = os.fork()
if child == 0:
    code = 0
    try:
        os.unshare(0x10000000) if hasattr(os, "unshare") else None
        os.makedirs("/tmp/inner", exist_ok=True)
        handle = os.open("/", os.O_RDONLY)
        os.chroot("/tmp/inner")
        os.fchdir(handle)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        code = 1 if NONCE in open(PATH).read() else 0
    except OSError:
        pass
    os._exit(code)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:
    found.append("double chroot")
tell(found, len(ways) + 1)
