"""The first process of a box: makes it what ``box`` says, and becomes the judge in it. Standard library; run as a file, by ``unshare``.

It is in namespaces of its own by then, all but the files' owner: of users (in which it is root, and on the machine nobody), mounts,
processes, network, IPC and names. Standard input: one line of JSON, ``Plan`` as ``box`` writes it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COVERED = {"/tmp": "1777", "/var/tmp": "1777", "/dev/shm": "1777", "/home": "555", "/root": "555", "/run": "555"}
"""Empty in the box, in memory, with these modes: what people keep there is theirs."""

NEAR, FAR = "172.30.0.1", "172.30.0.2"
"""The box's end of its only link, and the other."""

USER = 1000
"""Who the sandboxes are run by, in the box."""

MOST_SCRATCH = "512m"
"""Of each of the covered directories: gVisor's own layers lie there."""

_ETH_P_ALL = 3
_BIND, _RECURSIVE = 4096, 16384
_SYS_MOUNT_SETATTR, _AT_RECURSIVE, _ATTR_RDONLY = 442, 0x8000, 1  # the same numbers on every architecture
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    if sys.argv[1:] == ["far"]:
        _far()
        return
    plan = json.loads(sys.stdin.readline())
    _mounts(plan["keep"])
    _files(plan)
    socket.sethostname(plan["hostname"])
    wire = _link()
    os.set_inheritable(wire.fileno(), True)
    os.chdir(plan["environment"]["HOME"])
    user = ["unshare", "--user", f"--map-user={USER}", f"--map-group={USER}", "--"]
    command = [word.replace("{wire}", str(wire.fileno())) for word in plan["command"]]
    os.execvpe(user[0], [*user, *command], plan["environment"])


# --- files ------------------------------------------------------------------------------------------------------------


def _mounts(keep: Sequence[str]) -> None:
    """Everything read-only but the covered directories, which are new; ``keep``: what of those is there as it was."""
    held = [(path, os.open(path, os.O_PATH)) for path in keep if path.startswith(tuple(f"{top}/" for top in COVERED))]
    attributes = struct.pack("4Q", _ATTR_RDONLY, 0, 0, 0)
    if _LIBC.syscall(_SYS_MOUNT_SETATTR, -100, b"/", _AT_RECURSIVE, attributes, len(attributes)):
        raise OSError(ctypes.get_errno(), "cannot make the machine's files read-only for the box")
    for top, mode in COVERED.items():
        if os.path.isdir(top):
            _mount("tmpfs", os.path.realpath(top), "tmpfs", 0, f"size={MOST_SCRATCH},mode={mode}")
    for path, number in held:
        _place(path, is_directory=os.path.isdir(f"/proc/self/fd/{number}"))
        _mount(f"/proc/self/fd/{number}", path, "none", _BIND | _RECURSIVE)
        os.close(number)
    _mount("proc", "/proc", "proc", 0)


def _place(path: str, *, is_directory: bool) -> None:
    if is_directory:
        Path(path).mkdir(parents=True, exist_ok=True)
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), f"cannot mount {source} on {target}")


def _files(plan: Mapping[str, Any]) -> None:
    for path, text in plan["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, "utf-8")
    for path, source in plan["copies"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, path)
    for path, target in plan["links"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).symlink_to(target)
    for path, target in plan["over"].items():
        _mount(target, os.path.realpath(path), "none", _BIND)


# --- the network ------------------------------------------------------------------------------------------------------


def _link() -> socket.socket:
    """The box's own network, with one device and a route to everywhere, and what hears all that comes out of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        far = subprocess.Popen(["unshare", "--net", sys.executable, "-I", __file__, "far"], stdin=theirs.fileno())
    ours.recv(100)
    ip("link set lo up", "link add near type veth peer name far", f"link set far netns {far.pid}")
    ip(f"addr add {NEAR}/30 dev near", "link set near up", f"route add default via {FAR}")
    ip("-6 addr add fd00:7::1/64 dev near nodad", "-6 route add default via fd00:7::2")
    ours.send(b"go on")
    _, numbers, _, _ = socket.recv_fds(ours, 100, 1)
    far.wait()
    return socket.socket(fileno=numbers[0])


def _far() -> None:
    """The other end. Every address there is leads here, and nothing listens: who comes is refused at once, and heard."""
    near = socket.socket(fileno=os.dup(0))
    near.send(b"here")
    near.recv(100)
    ip("link set lo up", f"addr add {FAR}/30 dev far", "link set far up", "-6 addr add fd00:7::2/64 dev far nodad")
    ip("route add local 0.0.0.0/0 dev lo table main", "-6 route add local ::/0 dev lo table main")
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    wire.bind(("far", _ETH_P_ALL))
    socket.send_fds(near, [b"hears"], [wire.fileno()])  # which keeps this network alive


def ip(*lines: str) -> None:
    program = shutil.which("ip") or "/usr/sbin/ip"
    for line in lines:
        subprocess.run([program, *line.split()], check=True)


if __name__ == "__main__":
    main()
