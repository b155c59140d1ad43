"""Changes of files, and ports inside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.host import Call, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


async def watching(host: Host, path: str, recursive: bool = False) -> Call:
    call = await host.open("file.watch", path=path, recursive=recursive)
    await call.event("ready")
    return call


async def change(call: Call, kind: str, end: str) -> dict[str, Any]:
    return await call.event("change", lambda found: found["kind"] == kind and found["path"].endswith(end))


def told(call: Call) -> set[tuple[str, str]]:
    return {(fields["kind"], fields["path"].rsplit("/w/", 1)[-1]) for name, fields in call.events if name == "change"}


async def stop(call: Call) -> None:
    await call.cancel()
    assert await call.refusal() == "cancelled"


async def test_what_happens_to_files_is_told_by_kind_and_path(inside: Host) -> None:
    await inside.out("rm -rf ~/w; mkdir ~/w; echo old > ~/w/old")
    call = await watching(inside, "w")
    await inside.out("cd ~/w; echo 1 > new; echo 2 >> old; mv new newer; rm old")
    await change(call, "removed", "/w/old")
    assert {("created", "new"), ("modified", "old"), ("renamed", "newer"), ("removed", "old")} <= told(call)
    await stop(call)


@pytest.mark.parametrize("recursive", [False, True])
async def test_a_file_that_the_agent_writes_is_told_by_its_own_name_alone(inside: Host, recursive: bool) -> None:
    await inside.out("rm -rf ~/w; mkdir ~/w; echo old > ~/w/old")
    call = await watching(inside, "w", recursive)
    for name, how in (("old", "replace"), ("new", "replace"), ("made", "create"), ("sub/new", "replace")):
        await (await inside.write(f"w/{name}", b"content", how)).result()
    given_up = await inside.open("file.write", path="w/given-up", how="replace", mode=0o644, parents=False)
    await (await given_up.send(b"x")).cancel()
    assert await given_up.refusal() == "cancelled"
    await inside.out("touch ~/w/last")
    await change(call, "created", "/w/last")
    expected = {("modified", "old"), ("created", "new"), ("created", "made"), ("created", "sub"), ("created", "last")}
    assert told(call) - {("modified", "last")} == expected | ({("created", "sub/new")} if recursive else set())
    await stop(call)


async def test_recursive_watching_takes_in_new_directories_and_moved_ones(inside: Host) -> None:
    await inside.out("rm -rf ~/w; mkdir -p ~/w/a/b")
    call = await watching(inside, "w", recursive=True)
    await inside.out("cd ~/w; echo 1 > a/b/f; mkdir -p c/d")
    await change(call, "created", "/w/c")
    await inside.out("cd ~/w; mv a moved; echo 2 > moved/b/g")
    await change(call, "created", "/w/moved/b/g")
    assert {("created", "a/b/f"), ("renamed", "moved")} <= told(call)
    await stop(call)


async def test_what_was_already_in_a_new_directory_is_told_too(inside: Host) -> None:
    await inside.out("rm -rf ~/w ~/prepared; mkdir ~/w ~/prepared; touch ~/prepared/f")
    call = await watching(inside, "w", recursive=True)
    await inside.out("mv ~/prepared ~/w/p")
    await change(call, "created", "/w/p/f")
    await stop(call)


async def test_without_recursive_only_the_directory_itself_counts(inside: Host) -> None:
    await inside.out("rm -rf ~/w; mkdir -p ~/w/sub")
    call = await watching(inside, "w")
    await inside.out("cd ~/w; touch sub/f; touch last")
    await change(call, "created", "/w/last")
    assert ("created", "sub/f") not in told(call)
    await stop(call)


async def test_a_single_file_can_be_watched(inside: Host) -> None:
    await inside.out("rm -rf ~/w; mkdir ~/w; touch ~/w/f")
    call = await watching(inside, "w/f")
    await inside.out("echo more >> ~/w/f; touch ~/w/other")
    await change(call, "modified", "/w/f")
    await stop(call)


async def test_a_watch_ends_with_what_it_watches(inside: Host) -> None:
    await inside.out("rm -rf ~/w; mkdir ~/w")
    call = await watching(inside, "w")
    await inside.out("rmdir ~/w")
    assert await call.result() == {}
    assert ("removed", "w") in {(fields["kind"], fields["path"].rsplit("/", 1)[-1]) for _, fields in call.events[1:]}


async def test_what_is_not_there_cannot_be_watched(inside: Host) -> None:
    assert await (await inside.open("file.watch", path="nowhere", recursive=False)).refusal() == "not_found"


async def test_a_flood_of_changes_is_held_back_or_told_as_overflow(shared: Host) -> None:
    await shared.out("rm -rf ~/w; mkdir ~/w")
    call = await watching(shared, "w")
    call.reading = False
    await shared.out("cd ~/w; seq -f %0220.f 1 1500 | xargs touch; rm -rf [0-9]*")  # most of a megabyte of news
    await call.read_on()
    await shared.out("touch ~/w/last; true")
    async with asyncio.timeout(60):
        await call.event("change", lambda found: found["kind"] == "overflow" or found["path"].endswith("/last"))
    await stop(call)


async def test_a_link_out_of_the_home_is_not_watched_through(shared: Host) -> None:
    await shared.out("ln -sfn /etc ~/etc-link")
    assert await (await shared.open("file.watch", path="etc-link", recursive=True)).refusal() == "unsafe_path"


# --- ports --------------------------------------------------------------------------------------------------------

SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print(server.getsockname()[1], flush=True)
peer, _ = server.accept()
data = b""
while chunk := peer.recv(65536): data += chunk
peer.sendall(b"%d:" % len(data) + data[:int(sys.argv[2])])
peer.close()
"""


async def serve(host: Host, address: str = "127.0.0.1", answer: int = 10) -> tuple[Call, int]:
    server = await host.run("/usr/bin/python3", "-c", SERVER, address, str(answer))
    return server, int(await server.output(b"\n"))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_server_on_loopback_is_reached_both_ways(inside: Host, address: str) -> None:
    server, port = await serve(inside, address)
    call = await inside.open("port.connect", port=port)
    await call.event("connected")
    await (await call.send(b"hello, port")).eof()
    assert await call.result() == {}
    assert call.stdout == b"11:hello, por"
    assert (await server.result())["exit_code"] == 0


async def test_megabytes_pass_through_a_port_unchanged(inside: Host) -> None:
    data = bytes(range(256)) * 20_000
    _, port = await serve(inside, answer=len(data))
    call = await inside.open("port.connect", port=port)
    await (await call.send(data)).eof()
    await call.result()
    assert call.stdout == b"%d:" % len(data) + data


async def test_a_port_on_which_nobody_listens_is_refused(inside: Host) -> None:
    assert await (await inside.open("port.connect", port=1)).refusal() == "refused"


@pytest.mark.parametrize("port", [0, -1, 65536, 1 << 40])
async def test_a_number_that_is_no_port_is_a_bad_request(inside: Host, port: int) -> None:
    assert await (await inside.open("port.connect", port=port)).refusal() == "bad_request"


async def test_a_server_that_ends_first_is_told_by_the_end_of_the_stream(inside: Host) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); s.accept()"
    )
    server = await inside.python(code)
    call = await inside.open("port.connect", port=int(await server.output(b"\n")))
    await inside.until(lambda: 1 in call.ended)
    await call.eof()
    assert await call.result() == {}


async def test_cancelling_closes_the_connection_inside(inside: Host) -> None:
    server, port = await serve(inside)
    call = await inside.open("port.connect", port=port)
    await call.event("connected")
    await call.cancel()
    assert await call.refusal() == "cancelled"
    assert (await server.result())["exit_code"] == 0
