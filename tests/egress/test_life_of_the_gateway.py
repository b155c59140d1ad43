"""The gateway's process: what it has, what it has not, and what is left when one of the two sides ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from dayfly.boundaries.processes import wait_gone
from dayfly.egress import client, process
from dayfly.egress.client import EgressDenied, Gateway
from dayfly.egress.terms import Terms
from dayfly.errors import HostError
from tests.egress.canary import Canary, until
from tests.egress.conftest import local

SOURCE = os.pathsep.join([str(Path(client.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


ROOTS = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
"""All that it may have of this process's environment, and only where somebody has set it."""


def test_relative_paths_of_roots_are_from_where_they_were_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", "my:roots.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "roots:/etc/ssl/certs")
    assert process._roots(None) == {
        "SSL_CERT_FILE": f"{tmp_path}/my:roots.pem",
        "SSL_CERT_DIR": f"{tmp_path}/roots:/etc/ssl/certs",
    }
    monkeypatch.setenv("SSL_CERT_FILE", "")
    monkeypatch.delenv("SSL_CERT_DIR")
    assert process._roots(None) == {}


async def test_the_process_holds_one_socket_and_no_secret(gateway: Gateway) -> None:
    pid = gateway.pid
    known = status(pid)
    assert known["NoNewPrivs"] == "1"
    assert int(known["CapEff"], 16) == int(known["CapPrm"], 16) == 0
    if os.geteuid() == 0:
        assert set(known["Uid"].split()) == {"65534"}
        assert set(known["Gid"].split()) == {"65534"}
        assert known["Groups"] == ""
        environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
        assert [line.partition("=")[0] for line in environment if line] == ["PATH", *ROOTS]
        numbers = Path(f"/proc/{pid}/fd")
        open_files = sorted(os.readlink(one).partition(":")[0] for one in numbers.iterdir())
        # the one socket, asyncio's own pair, its epoll
        assert open_files == ["/dev/null"] * 3 + ["anon_inode"] + ["socket"] * 3
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert [line.split()[-3:-1] for line in limits.splitlines() if line.startswith("Max core")] == [["0", "0"]]


SHOW = """
import os, pathlib, sys
pathlib.Path(sys.argv[1]).write_bytes(pathlib.Path("/proc/self/environ").read_bytes())
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("given", [(), ("SSL_CERT_FILE",), ("SSL_CERT_FILE", "SSL_CERT_DIR")])
async def test_of_the_environment_it_has_a_path_and_where_certificates_are(
    monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.setenv("DAYFLY_SECRET_CRM", "sk-canary")
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in given:
        monkeypatch.setenv(name, str(tmp_path))
    seen = tmp_path / "environ"
    gateway = await Gateway.start(within=[sys.executable, "-I", "-c", SHOW, str(seen)])
    await gateway.close()
    assert [line.partition("=")[0] for line in seen.read_text().split("\0") if line] == ["PATH", *given]


async def test_killed_it_takes_all_traffic_with_it_and_everybody_is_told(canary: Canary) -> None:
    gateway = await Gateway.start()
    told = []
    gateway.on_closed = lambda sandbox, closed: told.append((sandbox, closed.why, closed.sent))
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(b"hello")
    assert await tunnel.read(10) == b"hello"
    reading = asyncio.ensure_future(tunnel.read(10))
    os.kill(gateway.pid, signal.SIGSTOP)
    waiting = [
        asyncio.ensure_future(gateway.connect("one", "localhost", canary.port)),
        asyncio.ensure_future(gateway.admit("one", Terms())),
    ]
    await asyncio.sleep(0)
    os.kill(gateway.pid, signal.SIGKILL)
    await asyncio.wait_for(gateway.lost.wait(), 10)
    with pytest.raises(EgressDenied) as caught:
        await waiting[0]
    assert caught.value.denied.code == "gateway_gone"
    with pytest.raises(HostError):
        await waiting[1]
    with pytest.raises(ConnectionResetError, match="gateway_gone"):
        await reading
    with pytest.raises(BrokenPipeError, match="gateway_gone"):
        await tunnel.write(b"x")
    assert tunnel.denied is not None
    assert tunnel.denied.code == "gateway_gone"
    for _ in range(2):
        with pytest.raises(EgressDenied):
            await gateway.connect("one", "localhost", canary.port)
    with pytest.raises(HostError):
        await gateway.admit("one", Terms())
    await gateway.withdraw("one")
    assert told == [("one", "gateway_gone", 5)]
    visit = await canary.visit()
    await asyncio.wait_for(visit.over.wait(), 10)
    tunnel.close()
    await gateway.close()


@pytest.mark.usefixtures("descriptors")
async def test_an_end_leaves_no_process_and_no_descriptor(canary: Canary) -> None:
    gateway = await Gateway.start()
    pid = gateway.pid
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnels = [await gateway.connect("one", "localhost", canary.port) for _ in range(5)]
    await gateway.close()
    await gateway.close()
    assert not Path(f"/proc/{pid}").exists()
    for tunnel in tunnels:
        tunnel.close()
    await until(lambda: all(visit.over.is_set() for visit in canary.visits))
    await asyncio.sleep(0)


async def test_connections_that_nobody_waits_for_any_more_leave_nothing(
    gateway: Gateway, canary: Canary, descriptors: int
) -> None:
    ended = []
    gateway.on_closed = lambda sandbox, closed: ended.append(closed.why)
    await gateway.admit("one", Terms(rules=local(canary.port)))
    for turns in range(60):
        attempt = asyncio.ensure_future(gateway.connect("one", "localhost", canary.port))
        for _ in range(turns % 20):
            await asyncio.sleep(0.0002)
        attempt.cancel()
        with suppress(asyncio.CancelledError):
            (await attempt).close()
    await until(lambda: not gateway._dialled)
    assert set(ended) <= {"ended", "done"}
    await until(lambda: all(visit.over.is_set() for visit in canary.visits))
    await until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


async def test_the_end_of_the_manager_is_the_end_of_the_gateway(tmp_path: Path) -> None:
    """However it ends, and also when a child of it goes on."""
    script = textwrap.dedent(
        """
        import asyncio, os, signal, sys, time
        from dayfly.egress.client import Gateway
        async def main():
            gateway = await Gateway.start()
            if not (child := os.fork()):
                time.sleep(600)
            print(gateway.pid, child, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
        """
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as run:
        assert run.stdout is not None
        gateway, child = map(int, run.stdout.readline().split())
        try:
            assert await asyncio.to_thread(wait_gone, [gateway], 10)
        finally:
            os.kill(child, signal.SIGKILL)


async def test_a_forked_child_holds_no_tunnel_open(gateway: Gateway, canary: Canary) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    child = os.fork()
    if not child:
        signal.pause()
    try:
        tunnel.close()
        visit = await canary.visit()
        await asyncio.wait_for(visit.over.wait(), 10)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def test_it_is_started_from_where_this_package_is_whatever_lies_around(tmp_path: Path) -> None:
    """A module of the standard library's name in the working directory, or on PYTHONPATH, is nobody's."""
    (tmp_path / "socket.py").write_text("raise SystemExit('mine')")
    script = (
        "import sys; sys.path.pop(0)\nimport asyncio\nfrom dayfly.egress.client import Gateway\n"
        + textwrap.dedent(
            f"""
        async def main():
            sys.path.insert(0, {str(tmp_path)!r})
            gateway = await Gateway.start()
            await gateway.close()
        asyncio.run(main())
        print("started")
        """
        )
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=subprocess.PIPE, env=environment, cwd=tmp_path
    )
    assert (await run.communicate())[0] == b"started\n"


@pytest.mark.usefixtures("descriptors")
async def test_what_cannot_be_started_says_why() -> None:
    with pytest.raises(HostError, match="cannot be started"):
        await Gateway.start(within=("/no/such/program",))
    with pytest.raises(HostError, match="no such luck"):
        await Gateway.start(within=("/bin/sh", "-c", "echo no such luck >&2; exit 1"))


async def test_started_by_a_person_it_says_what_it_is() -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    run = subprocess.run(
        [sys.executable, "-m", "dayfly.egress"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (run.returncode, run.stderr) == (1, "this is the gateway of dayfly's sandboxes; dayfly starts it itself\n")
