"""The oldest Python that the agent supports, in gVisor: every operation once."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly.boundaries.gvisor import GvisorBoundary
from tests.agent.conftest import open_room
from tests.agent.host import Host
from tests.agent.test_memory import SMALL
from tests.agent.test_network_inside import echo, said

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def old(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    async with open_room(gvisor, agents, "python39", **SMALL) as host:
        yield host


async def test_it_is_the_oldest_one(old: Host) -> None:
    assert old.welcome is not None
    assert str(old.welcome.facts["python"]).startswith("3.9.")


async def test_commands_terminals_and_detached_ones_work(old: Host) -> None:
    call = await old.shell("read x; echo $x; (sleep 300 &); exit 3", stdin=True)
    await (await call.send(b"word\n")).eof()
    assert (await call.result()) == {"exit_code": 3, "signal": None, "dropped": 0, "limit": None, "leftovers": 1}
    assert call.stdout == b"word\n"
    call = await old.shell("stty size", pty={"rows": 5, "cols": 6})
    await call.result()
    assert call.stdout == b"5 6\r\n"
    call = await old.shell("sleep 300", detached=True)
    pid = (await call.event("started"))["pid"]
    assert pid in {one["pid"] for one in (await old.ask("process.list"))["processes"]}
    follower = await old.open("process.connect", pid=pid, output=10)
    await old.ask("process.signal", pid=pid, signal=15)
    assert (await follower.result())["signal"] == 15
    assert await (await old.run("nothing-of-this-name")).refusal() == "cannot_start"


async def test_kernels_work(old: Host) -> None:
    for language, code, wanted in (("python", "x = 20\nprint(x + 1)", b"21\n"), ("bash", "echo $((20 + 1))", b"21\n")):
        params = {"context": language, "language": language, "code": code, "cpu_seconds": 60, "output": 1 << 20}
        call = await old.open("execute", **params)
        assert (await call.result())["status"] == "ok", call.stderr
        assert call.stdout == wanted
    listed = (await old.ask("context.list"))["contexts"]
    assert {one["name"] for one in listed} == {"python", "bash"}
    await old.ask("context.prepare", context="python", language="python")
    await old.ask("context.remove", context="bash")


async def test_files_trees_and_watches_work(old: Host) -> None:
    await (await old.write("a/b", b"content")).result()
    assert await old.read("a/b", 2, 3) == b"nte"
    assert (await old.ask("file.stat", path="a/b", follow=True))["size"] == 7
    assert [one["name"] for one in (await old.ask("file.list", path="a", after=None, limit=9))["entries"]] == ["b"]
    watch = await old.open("file.watch", path="a", recursive=True)
    await watch.event("ready")
    await old.ask("file.mkdir", path="a/c", parents=False, mode=0o755)
    await watch.event("change", lambda found: found["path"].endswith("/a/c"))
    await old.ask("file.rename", path="a/b", to="a/c/b", replace=False)
    await watch.cancel()
    out = await old.open("tree.pack", path="a")
    assert await out.result() == {"members": 2, "size": 7}
    with tarfile.open(fileobj=io.BytesIO(out.stdout)) as archive:
        assert archive.getnames() == ["c", "c/b"]
    into = await old.open("tree.unpack", path="copy")
    await (await into.send(out.stdout)).eof()
    assert await into.result() == {"members": 2, "size": 7}
    assert await old.ask("file.remove", path="copy", recursive=True) == {"removed": 3}
    assert await (await old.open("file.read", path="a/../b", offset=0, length=None)).refusal() == "unsafe_path"


async def test_ports_and_settings_work(old: Host) -> None:
    server = await old.python(
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
        "c, _ = s.accept(); c.sendall(c.recv(9).upper())"
    )
    call = await old.open("port.connect", port=int(await server.output(b"\n")))
    await call.send(b"word")
    await old.until(lambda: call.stdout == b"WORD")
    await call.cancel()
    await old.ask("configure", env={"A": "b"}, limits={"open_files": 300}, hostname=None)
    assert await old.out("echo $A; ulimit -n") == b"b\n300\n"
    assert (await old.ask("usage"))["cpu_seconds"] > 0


async def test_names_and_proxies_work(old: Host) -> None:
    old.serve = echo
    await old.ask("network", names=[{"host": "a.example", "ports": [443]}])
    code = """
found = []
for peer in (connect("a.example", 443), socket.create_connection(("127.0.0.1", 3128)), socket.create_connection(("127.0.0.1", 1080))):
    if peer.getpeername()[1] == 3128: peer.sendall(b"CONNECT a.example:443 HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n")
    if peer.getpeername()[1] == 1080: peer.sendall(b"\\5\\1\\0\\5\\1\\0\\3\\x09a.example\\1\\xbb")
    peer.sendall(b"hello")
    peer.shutdown(socket.SHUT_WR)
    found.append(everything(peer).decode()[-20:])
print(json.dumps([found, resolve("b.example")[0]]))
"""
    assert await said(old, code) == [
        ["a.example:443 hello"[-20:], "\na.example:443 hello", "\x00a.example:443 hello"],
        3,
    ]
    await old.ask("network", names=[])


async def test_memory_is_guarded(old: Host) -> None:
    value = await (await old.python("found = []\nwhile True: found.append(bytearray(10_000_000))")).result()
    assert value["limit"] == "memory"
