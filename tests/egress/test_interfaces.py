"""Which addresses are this machine's own: as the kernel lists them now, in a network of the test's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

WATCHING = """
import json, subprocess, sys
from dayfly.egress import interfaces
asked = 0
list_all = interfaces.interfaces
def counted():
    global asked
    asked += 1
    return list_all()
interfaces.interfaces = counted
def ip(*words):
    subprocess.run(["ip", *words], check=True)
def seen():
    now = watch.now()
    return sorted(map(str, now.addresses)), sorted(map(str, now.links)), asked
watch = interfaces.Watch()
found = [seen(), seen()]
ip("link", "set", "lo", "up")
found.append(seen())
ip("address", "add", "10.9.8.7/24", "dev", "lo")
found += [seen(), seen()]
ip("-6", "address", "add", "fd00:9::7/64", "dev", "lo")
found.append(seen())
for number in range(200):  # more than is listened to at once
    ip("address", "add", f"10.9.9.{number + 1}/32", "dev", "lo")
    ip("address", "del", f"10.9.9.{number + 1}/32", "dev", "lo")
ip("address", "del", "10.9.8.7/24", "dev", "lo")
found.append(seen())
watch.close()
found.append(seen())
print(json.dumps(found))
"""


def test_a_change_is_seen_by_the_next_look_and_nothing_is_asked_without_one() -> None:
    ours = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        ["unshare", "--net", *ours, sys.executable, "-c", WATCHING],
        check=True, capture_output=True, text=True, env={**os.environ, "PATH": os.defpath + ":/usr/sbin:/sbin"},
    )  # fmt: skip
    nothing, again, up, added, still, six, removed, anew = json.loads(done.stdout)
    assert nothing == [[], [], 1] == again
    assert "127.0.0.1" in up[0]
    assert "10.9.8.7" in added[0]
    assert "10.9.8.0/24" in added[1]
    assert still == added, "nor was anybody asked"
    assert "fd00:9::7" in six[0]
    assert "fd00:9::/64" in six[1]
    assert removed[0] == sorted({*six[0]} - {"10.9.8.7"})
    assert anew[:2] == removed[:2]
