"""A sandbox with names that is stopped, and gone on with elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dayfly.agent_bundle import agent_for
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.limits import Limits
from dayfly.spec import SandboxSpec
from dayfly.wire.connection import Connection
from tests.agent.authority import Authority
from tests.agent.host import LIMITS, USER, Host, Taken
from tests.agent.test_network_inside import PRELUDE, echo, names, said
from tests.machine import image

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

ARRIVE = """
peer = connect("a.example", 443)
peer.shutdown(socket.SHUT_WR)
print(json.dumps([resolve("a.example")[1], everything(peer).decode()]))
"""

STAY = """
held = connect("a.example", 443)
held.send(b"x")
address = resolve("a.example")[1]
print("ready", flush=True)
try:
    while held.recv(100): pass
    print("end", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
peer = socket.create_connection((address, 443), timeout=20)
peer.shutdown(socket.SHUT_WR)
print(everything(peer).decode(), flush=True)
"""


@asynccontextmanager
async def restored(boundary: GvisorBoundary, host: Host, agents: Path, scratch: Path) -> AsyncIterator[Host]:
    """A copy of the sandbox as it is now, while it stands still."""
    await host.quiesce()
    bookmark = host.connection.bookmark()
    snapshot = await host.cell.snapshot(scratch / secrets.token_hex(4))
    cell = await boundary.restore(snapshot, spec(agents))
    try:
        other = Host(cell)
        other.connection = Connection.continued(bookmark)
        other.serve = echo
        await other.resume()
        yield other
    finally:
        await cell.kill()


def spec(agents: Path) -> SandboxSpec:
    chosen = image("python")
    return SandboxSpec(secrets.token_hex(16), chosen, Limits(), agent_for(chosen, agents))


@asynccontextmanager
async def opened(boundary: GvisorBoundary, agents: Path, serve: Callable[[Taken], None]) -> AsyncIterator[Host]:
    """A sandbox that may connect to ``a.example``, where ``serve`` answers."""
    cell = await boundary.open(spec(agents))
    try:
        host = Host(cell)
        host.serve = serve
        await host.hello(user=USER, limits=LIMITS)
        await names(host, ("a.example", [443]))
        yield host
    finally:
        await cell.kill()


async def test_resolver_and_listeners_go_on_and_a_fork_gets_names_of_its_own(
    gvisor: GvisorBoundary, agents: Path, tmp_path: Path
) -> None:
    async with opened(gvisor, agents, echo) as host:
        address, answer = await said(host, ARRIVE)
        assert answer == "a.example:443 "
        async with restored(gvisor, host, agents, tmp_path) as fork:
            assert await said(fork, ARRIVE) == [address, "a.example:443 "]
            await names(fork, ("b.example", [443]))
            assert await said(fork, "print(json.dumps([resolve('a.example'), resolve('b.example')]))") == [
                [3, 0],
                [0, "127.64.0.2"],
            ]
        await host.resume()
        assert await said(host, ARRIVE) == [address, "a.example:443 "]


async def test_a_tunnel_that_the_host_cuts_before_the_snapshot_is_cut_for_the_code_and_the_next_one_works(
    gvisor: GvisorBoundary, agents: Path, tmp_path: Path
) -> None:
    async with opened(gvisor, agents, lambda taken: taken.connected()) as host:
        await (await host.write("client.py", (PRELUDE + STAY).encode())).result()
        started = await host.shell("mkfifo go; exec python3 client.py <>go >said 2>&1", detached=True)
        await started.event("started")
        await started.cancel()
        await started.refusal()
        held = await host.accepted()
        await host.out("until grep -q ready said; do sleep 0.05; done")
        held.fail("unreachable", "the sandbox is being saved")
        async with restored(gvisor, host, agents, tmp_path) as fork:
            assert await fork.out(
                "until grep -q Error said; do sleep 0.05; done; echo >go; until grep :443 said; do sleep 0.05; done"
            ) == (b"a.example:443 \n")
            assert await fork.out("cat said") == b"ready\nConnectionResetError\na.example:443 \n"


async def test_a_fork_believes_who_it_is_told_to_and_the_other_whom_it_was(
    gvisor: GvisorBoundary, agents: Path, tmp_path: Path
) -> None:
    ours, theirs = Authority(), Authority()

    async def believed(host: Host) -> set[str]:
        bundle = (await host.out("cat /etc/ssl/certs/ca-certificates.crt $NODE_EXTRA_CA_CERTS")).decode()
        return {name for name, one in (("ours", ours), ("theirs", theirs)) if bundle.count(one.pem) == 2}

    async with opened(gvisor, agents, echo) as host:
        await host.ask("network", names=[], authority=ours.pem, env={"AWS_REGION": "here"})
        async with restored(gvisor, host, agents, tmp_path) as fork:
            assert (await believed(fork), await fork.out("echo $AWS_REGION")) == ({"ours"}, b"here\n")
            await fork.ask("network", names=[], authority=theirs.pem, env={})
            assert (await believed(fork), await fork.out("echo $AWS_REGION")) == ({"theirs"}, b"\n")
        await host.resume()
        assert (await believed(host), await host.out("echo $AWS_REGION")) == ({"ours"}, b"here\n")
