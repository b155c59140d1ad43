"""One sandbox that asks for much: nothing of it stays behind in the gateway, in this process or in the agent; what is taken away
under load ends at once, and what is not goes on."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from dayfly.manager.recorded import RecordedLife
from dayfly.network import Rule
from dayfly.prove.internet import PUBLIC
from dayfly.sandbox.denials import KEPT
from tests.egress.canary import Canary, Visit, until
from tests.network.test_lives import AT_ONCE, cell, opened
from tests.network.world import EVIL, TCP, House, World

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

RAW = Rule(host="raw.example.com", ports=[TCP], protocol="tcp")
LOCAL = Rule(host="local.example.com", ports=[TCP], protocol="tcp")
WEB = Rule(host="web.example.com", ports=[80], protocol="http")

WARM = 300
"""Requests before the first look: until then pools, caches and allocators grow."""

BATCH = 500
"""Requests in one run."""

GROWTH = 6 * 2**20
"""Bytes of memory that a process may have more of after all of them: an allocator's own, and a table's next size. With 10,000
requests, a leak of 700 bytes in each is seen."""

STUCK = 2 * 2**20
"""Bytes of memory, in each process, for a connection whose reader has stopped: windows and a piece on its way."""

FLOOD = 7003

REQUESTS = f"""
import concurrent.futures, os, urllib.request
def one(number):
    if number % 10 == 7:
        with connect("127.0.0.1", 3128) as peer:
            peer.sendall(b"CONNECT {EVIL}:443 HTTP/1.1\\r\\nHost: {EVIL}:443\\r\\n\\r\\n")
            return peer.recv(12) == b"HTTP/1.1 403"
    if number % 10 == 8:
        with connect("raw.example.com", {TCP}) as peer: return echoed(peer, b"x" * 3000)
    if number % 10 == 9:
        connect("raw.example.com", {TCP}).close()  # without a word
        return True
    with urllib.request.urlopen(f"http://web.example.com/{{number}}") as answer: return answer.status == 200
def many(count):
    with concurrent.futures.ThreadPoolExecutor(4) as pool: return sum(pool.map(one, range(count)))
"""

AGENT = "import os\nprint(len(os.listdir('/proc/1/fd')), int(open('/proc/1/statm').read().split()[1]) * 4096)"


class Look:
    """What there is of everything that a connection takes: descriptors, tasks, objects, memory."""

    def __init__(self, gateway: int, agent: str) -> None:
        gc.collect()
        everything = gc.get_objects()
        self.objects = Counter(f"{type(one).__module__}.{type(one).__name__}" for one in everything)
        self.timers = sum(isinstance(one, asyncio.TimerHandle) and not one.cancelled() for one in everything)
        self.tasks = len(asyncio.all_tasks())
        self.own = _descriptors(os.getpid())
        self.gateways = _descriptors(gateway)
        self.threads = len(os.listdir(f"/proc/{gateway}/task"))
        self.memory = _memory(gateway)
        self.agents, self.agent_memory = map(int, agent.split())

    def counts(self) -> dict[str, int]:
        ours = {name: count for name, count in self.objects.items() if name.startswith("dayfly.")}
        del ours["dayfly.denial.Denial"]  # the last ones are remembered, on purpose; see below
        return {
            **ours,
            "tasks": self.tasks,
            "timers": self.timers,
            "descriptors here": self.own,
            "of the gateway": self.gateways,
            "threads": self.threads,
            "of the agent": self.agents,
        }


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def look(life: RecordedLife, house: House, world: World) -> Look:
    """When all is at rest: servers have seen the end of each connection, the gateway has told of it."""
    for canary in world.canaries.values():
        await asyncio.gather(*(visit.over.wait() for visit in canary.visits))
        canary.visits.clear()
    world.names.asked.clear()
    gateway = house.gateways[-1].pid
    await until(lambda: ", 0 connections" in repr(house.gateways[-1]))
    return Look(gateway, (await cell(life, AGENT)).stdout)


async def test_requests_leave_nothing_behind(world: World) -> None:
    await leave_nothing(world, BATCH)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_ten_thousand_requests_leave_nothing_behind(world: World) -> None:
    await leave_nothing(world, 10_000)


async def leave_nothing(world: World, requests: int) -> None:
    async with world.house() as house:
        life = await opened(house, RAW, WEB)
        await cell(life, REQUESTS)
        assert (await life.execute(f"print(many({WARM}))", timeout=60)).stdout == f"{WARM}\n"
        before = await look(life, house, world)
        for _ in range(requests // BATCH):  # in runs that do not use up their CPU time
            done = await life.execute(f"print(many({BATCH}))", timeout=120)
            assert done.stdout == f"{BATCH}\n", done
            for canary in world.canaries.values():
                canary.visits[:] = [visit for visit in canary.visits if not visit.over.is_set()]
        after = await look(life, house, world)
        counts = before.counts()
        more = {
            name: (counts.get(name, 0), count)
            for name, count in after.counts().items()
            if count > counts.get(name, 0) + 8
        }
        assert not more, more
        assert after.objects["dayfly.denial.Denial"] <= KEPT + 8
        grown = {"gateway": after.memory - before.memory, "agent": after.agent_memory - before.agent_memory}
        assert all(size < GROWTH for size in grown.values()), grown
        await life.close()


async def flood(visit: Visit) -> None:
    """For ever, as fast as it is taken."""
    while True:
        visit.writer.write(bytes(65536))
        await visit.writer.drain()


async def test_readers_that_have_stopped_cost_little_memory_outside(world: World) -> None:
    """Thirty of them, to whom there is no end of what would come."""
    canary = Canary(flood)
    await canary.listen(world.internet.bind("far", "tcp", PUBLIC[0], FLOOD))
    async with world.house() as house:
        life = await opened(house, RAW, Rule(host="local.example.com", ports=[FLOOD], protocol="tcp"))
        again = f"print(all(echoed(connect('raw.example.com', {TCP}), bytes(9000)) for _ in range(50)))"
        assert (await cell(life, again)).stdout == "True\n"
        pids = (os.getpid(), house.gateways[0].pid)
        before = [_memory(pid) for pid in pids]
        code = (
            f"peers = [connect('local.example.com', {FLOOD}) for _ in range(30)]\n"
            "print(sum(len(peer.recv(4)) == 4 for peer in peers))\n"
        )
        assert (await cell(life, code)).stdout == "30\n"
        assert (await cell(life, again)).stdout == "True\n", "others are served"
        grown = [_memory(pid) - size for pid, size in zip(pids, before, strict=True)]
        assert all(size < 30 * STUCK for size in grown), grown
        await life.close()
    await canary.close()


# --- taken away under load ----------------------------------------------------------------------------------------------

LOAD = f"""
import json, threading, time
def talking(host, made, ends, going):
    try:
        with connect(host, {TCP}, 60) as peer:
            made.append(1)
            while going.is_set():
                if not echoed(peer, bytes(1000)): raise EOFError
                done[host] = done.get(host, 0) + 1
        ends.append("done")
    except (OSError, EOFError) as error: ends.append(type(error).__name__)
done, ends, made, going = {{}}, {{"raw.example.com": [], "local.example.com": []}}, [], threading.Event()
going.set()
threads = [threading.Thread(target=talking, args=(host, made, ends[host], going)) for host in ["raw.example.com"] * 24 + ["local.example.com"] * 8]
for thread in threads: thread.start()
while len(made) < 32: time.sleep(0.001)
print("all")
"""

CUT = """
import time
def cut(): return len(ends["raw.example.com"]) == 24
while not cut(): time.sleep(0.001)
print(json.dumps([sorted(set(ends["raw.example.com"])), ends["local.example.com"]]))
"""

ON = """
before = done["local.example.com"]
while done["local.example.com"] < before + 50: time.sleep(0.001)
going.clear()
for thread in threads: thread.join()
print(ends["local.example.com"] == ["done"] * 8)
"""


async def test_what_is_taken_away_under_load_ends_at_once_and_the_rest_goes_on(world: World, home: House) -> None:
    life = await opened(home, RAW, LOCAL)
    assert (await cell(life, LOAD)).stdout == "all\n"
    async with asyncio.timeout(AT_ONCE):
        await life.set_network((LOCAL,), home.outlet)
        ended = await cell(life, CUT)
    assert json.loads(ended.stdout) == [["ConnectionResetError"], []], ended
    assert (await cell(life, ON)).stdout == "True\n"
    tried = await cell(life, f"connect('raw.example.com', {TCP})")
    assert tried.error is not None
    await life.close()


async def test_a_gateway_that_is_killed_under_load_stops_all_traffic_and_the_sandbox_is_told(world: World) -> None:
    async with world.house() as house:
        life = await opened(house, RAW, LOCAL)
        assert (await cell(life, LOAD)).stdout == "all\n"
        watching = asyncio.ensure_future(cell(life, CUT))
        await asyncio.sleep(0)
        os.kill(house.gateways[0].pid, signal.SIGKILL)
        ended = await asyncio.wait_for(watching, 5)
        assert json.loads(ended.stdout)[0] == ["ConnectionResetError"], ended
        await cell(life, "going.clear()\nfor thread in threads: thread.join()")
        assert await ends_of(life) == {"ConnectionResetError"}
        denied = life._inside.denials.since(0)
        assert {(one.host, one.code) for one in denied} == {
            ("raw.example.com", "gateway_gone"),
            ("local.example.com", "gateway_gone"),
        }
        assert sum(one.count for one in denied) == 32
        assert all(one.reason and one.remedy for one in denied)
        assert (await cell(life, f"print(echoed(connect('raw.example.com', {TCP})))")).stdout == "True\n", (
            "with the next one"
        )
        assert len(house.gateways) == 2
        await life.close()


async def ends_of(life: RecordedLife) -> set[str]:
    return set(json.loads((await cell(life, "print(json.dumps(sum(ends.values(), [])))")).stdout))
