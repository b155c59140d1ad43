"""Who is who inside gVisor: the user's code against the agent, its worker, and its own tags."""

from __future__ import annotations

import signal

import pytest

from tests.agent.conftest import OpenRoom
from tests.agent.host import LIMITS, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

UNSHARE = "import ctypes, os; ctypes.CDLL(None).unshare(0x10000000)"  # CLONE_NEWUSER


async def text(host: Host, code: str) -> str:
    call = await host.python(code)
    value = await call.result()
    assert value["exit_code"] == 0, call.stderr
    return call.stdout.decode().strip()


async def test_a_command_is_an_unprivileged_user_with_no_capabilities(shared: Host) -> None:
    assert await shared.out("id -u; id -g; awk '/^Cap(Eff|Prm|Inh)/ {print $2}' /proc/self/status") == (
        b"1000\n1000\n" + 3 * b"0000000000000000\n"
    )


async def test_every_command_has_a_tag_of_its_own_that_it_cannot_drop(shared: Host) -> None:
    code = "import os\nprint(os.getgroups())\ntry: os.setgroups([])\nexcept PermissionError: print('kept')"
    first, second = (await text(shared, code)).split("\n"), (await text(shared, code)).split("\n")
    assert first[1] == second[1] == "kept"
    assert first[0] != second[0]


async def test_rlimits_are_those_of_hello_and_hard(shared: Host) -> None:
    code = (
        "import resource as r; print([r.getrlimit(x) for x in "
        "(r.RLIMIT_NPROC, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_CORE)])"
    )
    assert await text(shared, code) == str([(200, 200), (512, 512), (512 << 20, 512 << 20), (0, 0)])


async def test_a_command_holds_no_descriptor_but_its_own_three(shared: Host) -> None:
    assert await text(shared, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])") == "[0, 1, 2]"


async def test_the_agent_is_out_of_reach(shared: Host) -> None:
    code = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def may(name, act):
    try: found = act()
    except (OSError, ValueError): return
    if not (isinstance(found, int) and os.fstat(found).st_rdev == os.stat("/dev/null").st_rdev): print(name)
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGCHLD): may(f"kill {number}", lambda: os.kill(1, number))
for fd in range(64):
    may(f"open {fd}", lambda: os.open(f"/proc/1/fd/{fd}", os.O_RDWR))
    may(f"read {fd}", lambda: os.open(f"/proc/1/fd/{fd}", os.O_RDONLY))
for name in ("mem", "root/etc/passwd", "cwd/etc/passwd", "exe"): may(name, lambda: open(f"/proc/1/{name}", "rb").read(1))
if libc.ptrace(16, 1, 0, 0) == 0: print("ptrace")
"""
    assert await text(shared, code) == ""


async def test_the_file_worker_and_errands_are_out_of_reach_too(shared: Host) -> None:
    """While they work: their effective uid is the user's, and only that."""
    watch = await shared.open("file.watch", path=".", recursive=True)
    await watch.event("ready")
    code = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
others = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    uid = [line.split()[1:5] for line in open(f"/proc/{pid}/status") if line.startswith("Uid:")][0]
    if uid[:3] == ["0", "1000", "0"]: others.append(int(pid))
print(len(others) >= 1)
def may(name, act):
    try: act()
    except OSError: return
    print(name)
for pid in others:
    for number in (signal.SIGKILL, signal.SIGSTOP): may(f"kill {number}", lambda: os.kill(pid, number))
    for fd in range(3, 32): may(f"open {fd}", lambda: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR))
    may("mem", lambda: open(f"/proc/{pid}/mem", "rb"))
    if libc.ptrace(16, pid, 0, 0) == 0: print("ptrace")
"""
    found = await text(shared, code)
    await watch.cancel()
    assert found == "True"


async def test_a_daemon_that_forked_twice_dies_with_its_command(shared: Host) -> None:
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(300)
    os._exit(0)
os.wait()  # by then the daemon is there
"""
    value = await (await shared.python(code)).result()
    assert (value["exit_code"], value["leftovers"]) == (0, 1)
    await nothing_left(shared)


async def test_a_daemon_that_dropped_its_tag_dies_with_its_command(shared: Host) -> None:
    """In a user namespace of its own, the gVisor of 2024 lets code drop all groups; the agent knows it by that."""
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    {UNSHARE}
    try: os.setgroups([])
    except PermissionError: pass
    if os.fork() == 0: time.sleep(300)
    os._exit(0)
os.wait()  # by then the daemon is there
"""
    value = await (await shared.python(code)).result()
    assert (value["exit_code"], value["leftovers"]) == (0, 1)
    await nothing_left(shared)


async def test_a_process_that_forges_its_groups_in_its_name_is_found(shared: Host) -> None:
    code = """
import ctypes, os, time
told, tell = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).prctl(15, b"x\\nGroups:\\t1\\n", 0, 0, 0)
    os.write(tell, b"x")
    time.sleep(300)
os.read(told, 1)
"""
    assert (await (await shared.python(code)).result())["leftovers"] == 1
    await nothing_left(shared)


async def test_other_commands_live_on_when_one_is_killed(shared: Host) -> None:
    other = await shared.shell("echo up; read x; echo alive", stdin=True)
    await other.output(b"up")
    call = await shared.shell("sleep 300 & sleep 300")
    await call.event("started")
    await call.cancel()
    await call.result()
    await other.send(b"\n")
    assert (await other.result())["exit_code"] == 0
    assert other.stdout.endswith(b"alive\n")


async def test_killing_all_that_can_be_killed_leaves_the_agent(shared: Host) -> None:
    victim = await shared.shell("sleep 300")
    await victim.event("started")
    await (await shared.python("import os; os.kill(-1, 9)")).result()
    assert (await victim.result())["signal"] == signal.SIGKILL
    assert await shared.out("echo served") == b"served\n"
    await (await shared.write("after", b"x")).result()


async def test_a_fork_bomb_ends_with_its_command_and_the_agent_still_starts_others(rooms: OpenRoom) -> None:
    room = await rooms(limits={**LIMITS, "processes": 50})
    bomb = (
        "import os, time\nwhile True:\n try: os.fork()\n except OSError: print('full', flush=True); time.sleep(300)\n"
    )
    call = await room.python(bomb)
    await call.output(b"full")
    other = await room.run("echo", "served")
    assert (await other.result())["exit_code"] == 0
    await call.cancel()
    assert (await call.result())["signal"] == signal.SIGKILL
    await nothing_left(room)


async def test_the_agent_answers_beside_a_dozen_spinning_processes(rooms: OpenRoom) -> None:
    room = await rooms()
    code = "import os\nfor _ in range(12):\n if not os.fork():\n  while True: pass\nprint('up', flush=True)\nos.wait()"
    call = await room.python(code, cpu_seconds=300)
    await call.output(b"up")
    await (await room.write("still", b"here")).result()
    assert await room.read("still") == b"here"
    await call.cancel()
    assert (await call.result())["signal"] == signal.SIGKILL


async def test_a_command_can_be_started_while_the_user_has_no_process_left_to_have(rooms: OpenRoom) -> None:
    room = await rooms(limits={"processes": 20, "open_files": 64})
    code = (
        "import os, time\ntry:\n while True:\n  if not os.fork(): time.sleep(300)\n"
        "except OSError: print('up', flush=True)\ntime.sleep(300)"
    )
    call = await room.python(code)
    await call.output(b"up")
    other = await room.run("echo", "served")
    assert (await other.result())["exit_code"] == 0
    await call.cancel()
    await call.result()


async def nothing_left(host: Host) -> None:
    """Nobody of the user is alive but the shell that looks."""
    seen = await host.out(
        "for p in /proc/[0-9]*; do [ \"$(awk '/^Uid:/ {print $2}' $p/status 2>/dev/null)\" = 1000 ] && "
        "grep -q '^State:.[^Z]' $p/status && [ $p != /proc/$$ ] && tr '\\0' ' ' < $p/cmdline; done; true"
    )
    assert b"sleep" not in seen.replace(b"awk", b"")
    assert b"python3" not in seen
