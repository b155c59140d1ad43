"""What code inside makes the host's own processes hold."""

from __future__ import annotations

from dayfly import Sandbox
from dayfly.prove.posture import processes_of

FILES, PROCESSES = 64, 16

HOARD = """
import glob, os, time
names = [one for one in glob.glob('/usr/lib/**/*', recursive=True) if os.path.isfile(one)]
children, (told, tell) = 0, os.pipe()
for child in range(100):
    try:
        if os.fork() == 0: break
    except OSError: child = 0; break
    children += 1
if child == children:
    held = []
    try:
        while True: held.append(os.open(names[(child * 70 + len(held)) % len(names)], os.O_RDONLY))
    except OSError: os.write(tell, b'.')
    time.sleep(600)
print(children, sum(len(os.read(told, 1)) for _ in range(children)), flush=True)
time.sleep(600)
"""
"""As many processes as there may be, and each opens what it may."""

CACHED = 1000
"""Files of the image that gVisor remembers open, whoever has closed them (its default, ``dentry_cache_limit``), and as many that it has
from what runs before."""


def test_no_more_files_are_open_outside_than_may_be_inside() -> None:
    with Sandbox({"image": "python", "limits": {"open_files": FILES, "processes": PROCESSES}}) as sandbox:
        before = held_outside(sandbox)
        with sandbox.commands.start(["python3", "-c", HOARD], timeout=50) as hoarders:
            made, full = map(int, next(iter(hoarders.output())).data.split())
            after = held_outside(sandbox)
        assert 0 < made == full < PROCESSES
        assert after > before, "the control: files are opened outside"
        assert after - before <= FILES * PROCESSES + 2 * CACHED
        assert sandbox.commands.run("echo here").stdout == b"here\n"


def held_outside(sandbox: Sandbox) -> int:
    watched = processes_of(sandbox.id, sandbox.limits)
    assert watched.processes
    return sum(len(one.files) for one in watched.processes)
