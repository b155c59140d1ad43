"""The network over a sandbox's life: none without rules, what was denied and used is known, and it ends when it is to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dayfly import AsyncSandbox
from dayfly.journal import Journal, Reader
from dayfly.limits import GIB
from dayfly.manager import Admission, Allowance, Capacity, Template, Tenants
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.traffic import MOST_ROWS, ROWS_PER_SECOND
from dayfly.network import Rule
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC
from dayfly.spec import Denial, Execution
from dayfly.testing.traces import descendants, gone
from tests.egress.canary import until
from tests.manager.house import SIGNER
from tests.network.world import EVIL, PRELUDE, TCP, House, World, in_kernel, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

RAW = Rule(host="raw.example.com", ports=[TCP], protocol="tcp")
LOCAL = Rule(host="local.example.com", ports=[TCP], protocol="tcp")
INWARD = Rule(host="inward.example.com", ports=[TCP], protocol="tcp")

AT_ONCE = 1.0
"""Seconds in which what was taken away has an end."""

LISTENERS = "print(sum(line.split()[3] == '0A' for line in list(open('/proc/net/tcp'))[1:]) + len(list(open('/proc/net/udp'))[1:]))"

HOLD = f"""
peer = connect("raw.example.com", {TCP}, 30)
assert echoed(peer)
print("open", flush=True)
"""

WAIT = """
try:
    print("end", peer.recv(1))
except OSError as error:
    print(type(error).__name__)
"""

AGAIN = f"print(echoed(connect('raw.example.com', {TCP})))"


async def opened(house: House, *rules: Rule) -> RecordedLife:
    return await house.manager.open(Policy(image="tiny", network=rules or "none"))


async def cell(life: RecordedLife, code: str) -> Execution:
    return await life.execute(PRELUDE + code, timeout=30)


async def waiting(sandbox: AsyncSandbox) -> asyncio.Task[Any]:
    """A command that holds a connection, and prints how that ended."""
    is_open = asyncio.Event()
    task = asyncio.ensure_future(python(sandbox, HOLD + WAIT, on_stdout=lambda data: is_open.set()))
    await asyncio.wait({task, asyncio.ensure_future(is_open.wait())}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    assert not task.done(), task.result()
    return task


# --- what there is ------------------------------------------------------------------------------------------------------


async def test_without_rules_there_is_nothing_inside_and_no_gateway_outside(world: World) -> None:
    async with world.house() as house:
        life = await opened(house)
        assert (await cell(life, LISTENERS)).stdout == "0\n"
        tried = await cell(life, f"connect('raw.example.com', {TCP})")
        assert tried.error is not None
        assert tried.denied == ()
        with_rules = await opened(house, RAW)  # the control
        assert house.gateways
        services = int((await cell(with_rules, LISTENERS)).stdout)
        assert services >= 2, "a resolver, and what else there is for all names"
        assert (await cell(with_rules, AGAIN + "; " + LISTENERS)).stdout == f"True\n{services + 1}\n"
        await with_rules.set_network((), house.outlet)
        assert (await cell(with_rules, LISTENERS)).stdout == "0\n", "and nothing again"
        assert len(house.gateways) == 1


async def test_no_gateway_is_started_for_nobody(world: World) -> None:
    async with world.house() as house:
        before = descendants()
        life = await opened(house)
        assert (await cell(life, "1")).ok
        await house.manager.close()
        assert house.gateways == []
        assert descendants() <= before


async def test_what_a_run_was_denied_is_in_its_answer(world: World, home: House) -> None:
    world.names.table["inward.example.com"] = [["10.1.2.3"]]
    life = await opened(home, RAW, INWARD)
    attempt = (
        f"for host in ('{EVIL}', '{EVIL}', 'inward.example.com'):\n"
        f"    try: print(echoed(connect(host, {TCP})))\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    done = await cell(life, attempt)
    assert done.stdout.split()[:2] == ["gaierror"] * 2
    assert done.stdout.split()[2] != "True"
    found = {one.host: one for one in done.denied}
    assert set(found) == {EVIL, "inward.example.com"}
    claim, seen = found[EVIL], found["inward.example.com"]
    assert (claim.port, claim.code, claim.claimed, claim.count) == (None, "not_listed", True, 2)
    assert (seen.port, seen.code, seen.claimed, seen.count) == (TCP, "private_address", False, 1)
    assert all(isinstance(one, Denial) and one.reason and one.remedy for one in done.denied)
    assert (await cell(life, AGAIN)).denied == (), "each run hears of its own"
    process = await life.start_process(["python3", "-c", PRELUDE + attempt])
    ended = await process.wait()
    assert {(one.host, one.code) for one in ended.denied} == {
        (EVIL, "not_listed"),
        ("inward.example.com", "private_address"),
    }
    await life.close()


# --- the journal --------------------------------------------------------------------------------------------------------


def tenants_over(house: House, journal: Journal) -> Tenants:
    def allowance_of(tenant: str) -> Allowance:
        return Allowance()

    admission = Admission(Capacity(10, 100 * GIB, 100, 0), allowance_of, free_memory=lambda: 100 * GIB)
    return Tenants(house.manager, admission, allowance_of, journal=journal)


async def test_traffic_and_denials_are_in_the_journal_and_a_flood_is_few_entries(world: World, tmp_path: Path) -> None:
    world.names.table["inward.example.com"] = [["10.1.2.3"]]
    journal = Journal(tmp_path / "journal.db", SIGNER)
    async with world.house() as house:
        tenants = tenants_over(house, journal)
        mine = await tenants.create("anna", Policy(image="tiny", network=(RAW, INWARD)))
        life = mine.life
        assert isinstance(life, RecordedLife)
        assert (await cell(life, AGAIN + "; " + AGAIN)).stdout == "True\nTrue\n"
        await cell(life, f"connect('inward.example.com', {TCP}).recv(1)")
        await until(lambda: tenants.tally.connections == 2)
        assert (tenants.tally.sent, tenants.tally.received) == (10, 10)
        assert tenants.tally.denied == {("private_address", False): 1}
        flood = await cell(
            life,
            "asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "asking.connect(('127.0.0.1', 53)); asking.settimeout(10)\n"
            "for number in range(2_000):\n"
            "    label = b'%06d' % number\n"
            "    asking.send(bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 6]) + label + b'\\4evil\\3net\\0' + bytes([0, 1, 0, 1]))\n"
            "    assert asking.recv(4096)[3] & 15 == 3\n",
        )
        assert flood.ok, flood
        assert 0 < len(flood.denied) <= 200
        await tenants.close()
    journal.close()
    entries = [
        (row.entry.kind, json.loads(row.entry.facts)) for row in Reader(tmp_path / "journal.db").entries(mine.id)
    ]
    used = [facts for kind, facts in entries if kind == "egress.used"]
    assert sum(facts["count"] for facts in used) == 2
    assert sum(facts["sent"] for facts in used) == sum(facts["received"] for facts in used) == 10
    assert {(facts["host"], facts["port"], facts["rule"], facts["address"]) for facts in used} == {
        ("raw.example.com", TCP, 0, PUBLIC[0])
    }
    denied = [facts for kind, facts in entries if kind == "egress.denied"]
    assert [facts["count"] for facts in denied if facts["code"] == "private_address"] == [1]
    claimed = [facts for facts in denied if facts["claimed"]]
    assert 0 < len(claimed) <= 300
    assert world.names.asked.count("inward.example.com") > 0
    assert set(world.names.asked) == {"raw.example.com", "inward.example.com"}
    assert entries[-1][0] == "sandbox.ended"


async def test_a_flood_that_the_gateway_denies_is_few_entries_and_one_kind_of_denial(
    world: World, tmp_path: Path
) -> None:
    journal, begun = Journal(tmp_path / "journal.db", SIGNER), time.monotonic()
    async with world.house() as house:
        tenants = tenants_over(house, journal)
        mine = await tenants.create("anna", Policy(image="tiny", network=(RAW,)))
        assert isinstance(mine.life, RecordedLife)
        flood = await cell(
            mine.life,
            "for number in range(500):\n"
            "    with connect('127.0.0.1', 3128) as peer:\n"
            f"        place = b'n%d.{EVIL}:443' % (number % 100)\n"
            "        peer.sendall(b'CONNECT %b HTTP/1.1\\r\\nHost: %b\\r\\n\\r\\n' % (place, place))\n"
            "        answer = peer.recv(100)\n"
            "        assert b' 403 ' in answer, answer\n",
        )
        assert flood.ok, flood
        assert {(one.code, one.claimed) for one in flood.denied} == {("not_listed", False)}
        await tenants.close()
    journal.close()
    rows = [(row.entry.kind, json.loads(row.entry.facts)) for row in Reader(tmp_path / "journal.db").entries(mine.id)]
    found = [facts["count"] for kind, facts in rows if kind in ("egress.denied", "egress.more")]
    assert sum(found) == 500
    seconds = 2 + time.monotonic() - begun
    assert len(found) <= MOST_ROWS + seconds * (ROWS_PER_SECOND + 1), "and each second one for those beyond"
    assert world.names.asked == []


# --- ends ---------------------------------------------------------------------------------------------------------------


async def test_a_killed_gateway_stops_traffic_and_the_next_one_knows_all_rules(world: World) -> None:
    async with world.house() as house, house.sandbox(RAW) as one, house.sandbox(LOCAL) as other:
        held = await waiting(one)
        os.kill(house.gateways[0].pid, signal.SIGKILL)
        done = await asyncio.wait_for(held, AT_ONCE)
        assert "ConnectionResetError" in done.text, done
        assert [denied.code for denied in done.denied] == ["gateway_gone"]
        assert (await in_kernel(one, AGAIN)).stdout == "True\n"
        assert (await in_kernel(other, AGAIN.replace("raw", "local"))).stdout == "True\n"
        assert not (await in_kernel(other, AGAIN)).ok
        assert len(house.gateways) == 2


async def test_a_rule_that_is_taken_away_takes_its_connections_along(world: World, home: House) -> None:
    async with home.sandbox(RAW, LOCAL) as sandbox:
        held = await waiting(sandbox)
        life = sandbox._backend
        assert isinstance(life, RecordedLife)
        await life.set_network((LOCAL,), home.outlet)
        assert "ConnectionResetError" in (await asyncio.wait_for(held, AT_ONCE)).text
        assert not (await in_kernel(sandbox, AGAIN)).ok
        assert (await in_kernel(sandbox, AGAIN.replace("raw", "local"))).stdout == "True\n"
        assert life.policy.network == (LOCAL,)
        await life.set_network((RAW,), home.outlet)
        assert (await in_kernel(sandbox, AGAIN)).stdout == "True\n"


async def test_a_cap_of_bytes_is_for_a_life_whatever_happens_to_the_gateway(world: World) -> None:
    transfer = f"peer = connect('raw.example.com', {TCP}); print(echoed(peer, bytes(20_000))); peer.close()"
    async with world.house() as house:
        life = await opened(house, RAW.model_copy(update={"max_bytes": 130_000}))
        assert (await cell(life, transfer)).stdout == "True\n"
        os.kill(house.gateways[0].pid, signal.SIGKILL)
        await asyncio.wait_for(house.gateways[0].lost.wait(), 5)
        assert (await cell(life, transfer)).stdout == "True\n"
        await house.manager.pause(life.id)
        life = await house.manager.resume(life.id)
        assert (await cell(life, transfer)).stdout == "True\n"
        last = await cell(life, transfer)
        assert last.stdout != "True\n"
        assert [one.code for one in last.denied] == ["byte_cap"]


async def test_an_end_of_a_sandbox_is_an_end_of_its_connections(world: World, home: House) -> None:
    life = await opened(home, RAW)
    await cell(life, HOLD)
    visit = await world.canaries[PUBLIC[0], TCP].visit()
    assert not visit.over.is_set()
    await life.close()
    await asyncio.wait_for(visit.over.wait(), AT_ONCE)


async def test_a_manager_that_closes_leaves_no_gateway(world: World) -> None:
    async with world.house() as house:
        life = await opened(house, RAW)
        await cell(life, HOLD)
        pid = house.gateways[0].pid
        await house.manager.close()
        assert not Path(f"/proc/{pid}").exists()


KILLED = """
import asyncio, sys
from dayfly.manager import embedded
from dayfly.policy import Policy

async def main():
    manager = embedded()
    network = [{"host": "localhost", "ports": [9], "protocol": "tcp", "private": "127.0.0.0/8"}]
    await manager.open(Policy(image="tiny", network=network))
    print("open", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_process_leaves_no_gateway() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"open\n"
            left = descendants(process.pid)
            gateways = [pid for pid, _ in left if b"dayfly.egress" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            assert len(gateways) == 1
        finally:
            process.kill()
    assert not await gone(left, 5)


# --- at rest and at work ------------------------------------------------------------------------------------------------


async def test_what_comes_for_a_sandbox_at_rest_is_there_when_it_wakes(world: World, home: House) -> None:
    life = await opened(home, RAW)
    await cell(life, HOLD)
    visit = await world.canaries[PUBLIC[0], TCP].visit()
    await until(lambda: life._rest.frozen)
    visit.writer.write(bytes(1 << 20))  # more than there is room for on the way
    read = "total = 0\nwhile total < 1 << 20: total += len(peer.recv(1 << 16)) or sys.exit()\nprint('all')"
    assert (await cell(life, read)).stdout == "all\n"
    await until(lambda: life._rest.frozen)
    await life.set_network((), home.outlet)
    assert (await cell(life, WAIT)).stdout == "ConnectionResetError\n"
    await life.close()


async def test_connections_that_nobody_reads_stand_in_nobodys_way(world: World, home: House) -> None:
    """As many as there may be at once but one, each with 20 MB to come."""
    web = Rule(host="web.example.com", ports=[80], protocol="http")
    life = await opened(home, RAW, web)
    stuck = await cell(
        life,
        "peers = [connect('web.example.com', 80) for _ in range(63)]\n"
        "for peer in peers: peer.sendall(b'GET /big HTTP/1.1\\r\\nHost: web.example.com\\r\\n\\r\\n')\n"
        "print(sum(peer.recv(4) == b'HTTP' for peer in peers))\n",
    )
    assert stuck.stdout == "63\n", stuck
    assert (await cell(life, AGAIN)).stdout == "True\n"
    read = "total = 0\nwhile total < 20 << 20: total += len(peers[0].recv(1 << 16)) or sys.exit()\nprint('all')"
    assert (await cell(life, read)).stdout == "all\n"
    async with home.sandbox(RAW) as other:
        assert (await in_kernel(other, AGAIN)).stdout == "True\n"
    await life.close()
    assert life.end_reason == "stopped"


# --- pauses, forks, spares ----------------------------------------------------------------------------------------------


async def test_a_pause_ends_connections_and_names_work_again_afterwards(world: World, home: House) -> None:
    life = await opened(home, RAW)
    await cell(life, HOLD)
    await home.manager.pause(life.id)
    visit = await world.canaries[PUBLIC[0], TCP].visit()
    await asyncio.wait_for(visit.over.wait(), AT_ONCE)
    again = await home.manager.resume(life.id)
    assert (await cell(again, WAIT)).stdout == "ConnectionResetError\n"
    assert (await cell(again, AGAIN)).stdout == "True\n"
    assert (await cell(again, f"connect('{EVIL}', {TCP})")).denied[0].code == "not_listed"
    await again.close()


async def test_code_that_connects_all_the_time_is_denied_nothing_by_a_pause(world: World, home: House) -> None:
    life = await opened(home, RAW)
    hammer = (
        "import threading, time\n"
        "done, errors, over = [0], [], threading.Event()\n"
        "def connecting():\n"
        "    while not over.is_set():\n"
        "        try:\n"
        f"            with connect('raw.example.com', {TCP}) as peer: done[0] += echoed(peer)\n"
        "        except OSError as error: errors.append(type(error).__name__)\n"
        "thread = threading.Thread(target=connecting, daemon=True)\n"
        "thread.start()\n"
        "while not done[0]: time.sleep(0.001)\n"  # its name is known by then: a pause amid the first question for it is another matter
    )
    await cell(life, hammer)
    for _ in range(2):
        await home.manager.pause(life.id)
        life = await home.manager.resume(life.id)
        on = "before = done[0]\nwhile done[0] < before + 5: time.sleep(0.001)\nprint('on')"
        assert (await cell(life, on)).stdout == "on\n"
    ended = await cell(
        life, "over.set(); thread.join(); print(len(errors) <= 6, set(errors) <= {'ConnectionResetError'}, errors)"
    )
    assert ended.stdout.startswith("True True"), ended
    assert life._inside.denials.since(0) == ()
    await life.close()


async def test_forks_have_connections_of_their_own(world: World, home: House) -> None:
    life = await opened(home, RAW)
    await cell(life, HOLD)
    lives = [life, *await home.manager.fork(life.id, 2)]
    for one in lives:
        assert (await cell(one, WAIT)).stdout == "ConnectionResetError\n"
        assert (await cell(one, HOLD)).stdout == "open\n"
    assert len(world.canaries[PUBLIC[0], TCP].visits) == 1 + len(lives)
    await life.set_network((), home.outlet)
    assert (await cell(life, WAIT)).stdout == "ConnectionResetError\n"
    for one in lives[1:]:
        assert (await cell(one, "print(echoed(peer))")).stdout == "True\n", "another one's end is nothing to them"
    await asyncio.gather(*(one.close() for one in lives))


async def test_what_was_taken_away_does_not_come_back_with_a_pause_or_a_fork(world: World, home: House) -> None:
    life = await opened(home, RAW, LOCAL)
    await life.set_network((LOCAL,), home.outlet)
    (copy,) = await home.manager.fork(life.id)
    await home.manager.pause(life.id)
    for one in (copy, await home.manager.resume(life.id)):
        assert (await cell(one, AGAIN)).error is not None
        assert (await cell(one, AGAIN.replace("raw", "local"))).stdout == "True\n"
        await one.close()


async def test_a_spare_has_the_rules_of_whoever_claims_it(world: World) -> None:
    async with world.house() as house:
        spares = house.manager.keep(Template("python", Policy(image="tiny", network=(LOCAL,)), spares=2))
        await spares.full()
        assert house.gateways == [], "nobody's sandbox reaches anybody"
        claimed = await opened(house, RAW)
        assert (await cell(claimed, AGAIN)).stdout == "True\n"
        assert (await cell(claimed, AGAIN.replace("raw", "local"))).error is not None
        without = await opened(house)
        assert len(spares) < 2, "both came from the spares"
        assert (await cell(without, LISTENERS)).stdout == "0\n"
        assert (await cell(without, AGAIN)).error is not None
