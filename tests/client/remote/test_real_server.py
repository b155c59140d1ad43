"""The client over a real server and real gVisor: whose sandbox it is, how long it lives, and what a lost client leaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import httpx
import pytest

from dayfly import (
    AsyncSandbox,
    DayflyError,
    EndReason,
    InputError,
    NoSuchSandbox,
    Outcome,
    PolicyError,
    Sandbox,
    SandboxEnded,
    SandboxFileError,
    ServerUnreachable,
)
from tests.client.remote.canned import proxy
from tests.client.remote.conftest import Tenant
from tests.server.house import House

pytestmark = pytest.mark.gvisor

TINY = {"image": "tiny", "limits": {"memory": "256MiB"}}


# --- whose it is, and how long it lives ---


async def test_a_sandbox_lives_as_long_as_its_object(tenant: Tenant) -> None:
    async with AsyncSandbox(TINY, env={"A": "b"}, **tenant.at) as sandbox:
        assert tenant.held(sandbox.id).life.policy == sandbox.policy
        assert sandbox.policy.limits.memory == 256 * 2**20
        assert (await sandbox.run_code("import os; os.environ['A']")).text == "'b'"
        assert sandbox.id in tenant.live
    assert sandbox.id not in tenant.live
    assert (sandbox.end_reason, tenant.held(sandbox.id).end_reason) == (EndReason.STOPPED, EndReason.STOPPED)
    with pytest.raises(SandboxEnded, match="stopped"):
        await sandbox.run_code("1")
    with pytest.raises(SandboxEnded):
        await AsyncSandbox.connect(sandbox.id, **tenant.at)


async def test_a_sandbox_is_found_by_its_id_and_left_alive(tenant: Tenant, sandbox: AsyncSandbox) -> None:
    await sandbox.run_code("x = 7")
    async with await AsyncSandbox.connect(sandbox.id, **tenant.at) as again:
        assert (await again.run_code("x")).text == "7"
        assert (again.policy, again.languages) == (sandbox.policy, sandbox.languages)
    with pytest.raises(InputError, match="its sandbox goes on"):
        await again.run_code("x")
    assert (await sandbox.run_code("x")).text == "7"
    again = await AsyncSandbox.connect(sandbox.id, **tenant.at)
    await again.close(end=True)
    assert sandbox.id not in tenant.live
    await sandbox.refresh()
    assert sandbox.end_reason is EndReason.STOPPED


async def test_another_tenants_sandbox_is_none(stranger: Tenant, tenant: Tenant, sandbox: AsyncSandbox) -> None:
    for ident in (sandbox.id, "0" * 32, "no such", "../../keys"):
        with pytest.raises(NoSuchSandbox):
            await AsyncSandbox.connect(ident, **stranger.at)
    await (await AsyncSandbox.connect(sandbox.id, **tenant.at)).close()


async def test_a_token_opens_its_one_sandbox(tenant: Tenant, sandbox: AsyncSandbox) -> None:
    asked = {"seconds": 60}
    path = f"{tenant.server.url}/v1/sandboxes/{sandbox.id}/token"
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {tenant.key}"}, trust_env=False) as client:
        token = (await client.post(path, json=asked)).json()["token"]
    handed = await AsyncSandbox.connect(sandbox.id, url=tenant.server.url, api_key=token)
    assert (await handed.run_code("1")).text == "1"
    await handed.close()
    with pytest.raises(InputError, match="token"):
        await AsyncSandbox(TINY, url=tenant.server.url, api_key=token).open()


async def test_a_conversation_finds_its_sandbox_again(tenant: Tenant, stranger: Tenant) -> None:
    key = "chat/17 \N{SNOWMAN}?x#y%2F"
    async with AsyncSandbox(TINY, conversation=key, **tenant.at) as first:
        await first.run_code("x = 'kept'")
    async with AsyncSandbox(TINY, conversation=key, **tenant.at) as second:
        assert second.id == first.id
        assert (await second.run_code("x")).text == "'kept'"
    async with AsyncSandbox(TINY, conversation=key, **stranger.at) as theirs:
        assert theirs.id != first.id
        await theirs.close(end=True)
    last = await AsyncSandbox(TINY, conversation=key, **tenant.at).open()
    await last.close(end=True)
    assert first.id not in tenant.live
    async with AsyncSandbox(TINY, conversation=key, **tenant.at) as new:
        assert new.id != first.id
        await new.close(end=True)


async def test_a_template_stands_for_a_policy(tenant: Tenant) -> None:
    async with AsyncSandbox(template="spare", **tenant.at) as sandbox:
        assert tenant.held(sandbox.id).template == "spare"
        assert sandbox.policy.image == "python"
    with pytest.raises(InputError, match="no template"):
        await AsyncSandbox(template="none such", **tenant.at).open()


async def test_what_the_server_refuses_is_the_error_that_it_means(tenant: Tenant) -> None:
    with pytest.raises(DayflyError, match=r"no image|not built|no recipe"):
        await AsyncSandbox(image="no-such-image", **tenant.at).open()
    with pytest.raises(PolicyError, match="mounts"):
        await AsyncSandbox({"mounts": [{"source": "/usr/share", "target": "/data"}]}, **tenant.at).open()
    with pytest.raises(InputError, match="Authorization") as caught:
        await AsyncSandbox(TINY, url=tenant.server.url, api_key="dfk_wrong_key").open()
    assert caught.value.http_status == 401
    assert tenant.live == []


async def test_the_environment_chooses_the_server(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYFLY_URL", tenant.server.url)
    monkeypatch.setenv("DAYFLY_API_KEY", tenant.key)
    async with AsyncSandbox(TINY) as sandbox:
        assert sandbox.id in tenant.live


# --- what is true when ---


async def test_usage_and_end_are_as_of_the_last_refresh(tenant: Tenant, sandbox: AsyncSandbox) -> None:
    assert sandbox.usage.memory is None
    await sandbox.refresh()
    assert (sandbox.usage.memory or 0) > 0
    await AsyncSandbox.close(await AsyncSandbox.connect(sandbox.id, **tenant.at), end=True)
    assert sandbox.end_reason is None, "nobody has told it"
    await sandbox.refresh()
    assert sandbox.end_reason is EndReason.STOPPED


def test_those_of_a_blocking_sandbox_are_true_when_they_are_read(tenant: Tenant) -> None:
    with Sandbox(TINY, **tenant.at) as sandbox:
        assert (sandbox.usage.memory or 0) > 0
        with Sandbox.connect(sandbox.id, **tenant.at) as again:
            assert again.end_reason is None
            again.close(end=True)
        assert sandbox.end_reason is EndReason.STOPPED


async def test_the_end_under_a_run_is_an_outcome_and_remembered(tenant: Tenant) -> None:
    async with AsyncSandbox(TINY, **tenant.at) as sandbox:
        begun = asyncio.Event()
        running = asyncio.ensure_future(
            sandbox.run_code("print('on', flush=True)\nwhile True: pass", on_stdout=awaited(begun))
        )
        await begun.wait()
        server = tenant.server
        await asyncio.to_thread(server.call, tenant.held(sandbox.id).life.kill(EndReason.MEMORY_LIMIT, "a test"))
        run = await running
        assert (run.outcome, run.stdout, run.end_reason) == (Outcome.SANDBOX_ENDED, "on\n", EndReason.MEMORY_LIMIT)
        assert sandbox.end_reason is EndReason.MEMORY_LIMIT
        with pytest.raises(SandboxEnded, match="memory_limit"):
            await sandbox.files.read("f")


def awaited(event: asyncio.Event) -> object:
    async def on_stdout(text: str) -> None:
        event.set()

    return on_stdout


async def test_explain_tells_what_the_server_generated(room: AsyncSandbox) -> None:
    assert (await room.explain())["boundary"] == "gvisor"


async def test_a_file_error_is_the_same_as_embedded(room: AsyncSandbox) -> None:
    with pytest.raises(SandboxFileError) as caught:
        await room.files.read(b"no\xff")
    assert (caught.value.problem, caught.value.path) == ("not_found", "no\udcff")


async def test_parts_of_files_are_read(room: AsyncSandbox) -> None:
    data = bytes(range(256)) * 5000
    await room.files.write("f", data)
    await room.files.write("empty", b"")

    async def part(offset: int, length: int | None, name: str = "f") -> bytes:
        return b"".join([piece async for piece in room.files.stream(name, offset=offset, length=length)])

    assert await part(0, None) == data
    assert await part(7, None) == data[7:]
    assert await part(300_000, 300_000) == data[300_000:600_000]
    assert await part(len(data) - 1, 50) == data[-1:]
    assert await part(len(data), 50) == await part(10**9, None) == await part(0, 0) == await part(0, 9, "empty") == b""
    with pytest.raises(SandboxFileError):
        await part(0, 0, "missing")


# --- cancelling, and vanishing ---

LOOP = "print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


async def test_cancelling_interrupts_the_run_and_the_context_is_free(room: AsyncSandbox) -> None:
    await room.run_code("x = 7")
    for _ in range(3):
        begun = asyncio.Event()
        running = asyncio.ensure_future(room.run_code(LOOP, on_stdout=awaited(begun)))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not any(context.busy for context in await room.contexts.list())
        assert (await room.run_code("x", timeout=5)).text == "7"


async def test_a_callback_that_raises_stops_the_run(room: AsyncSandbox) -> None:
    async def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="on"):
        await room.run_code(LOOP, on_stdout=fail)
    assert (await room.run_code("1", timeout=5)).text == "1"


async def test_a_callback_that_hangs_does_not_delay_the_end(room: AsyncSandbox) -> None:
    async def hang(text: str) -> None:
        await asyncio.Event().wait()

    began = time.monotonic()
    run = await room.run_code(LOOP, on_stdout=hang, timeout=0.5)
    assert run.outcome is Outcome.TIMEOUT
    assert time.monotonic() - began < 10


async def test_a_client_that_vanishes_has_its_run_interrupted(tenant: Tenant, sandbox: AsyncSandbox) -> None:
    await sandbox.run_code("x = 7")
    async with proxy(tenant.server.port, "/way") as way:
        lost = await AsyncSandbox.connect(sandbox.id, url=way.url, api_key=tenant.key)
        begun = asyncio.Event()
        running = asyncio.ensure_future(lost.run_code(LOOP, on_stdout=awaited(begun)))
        await begun.wait()
        assert [one.busy for one in await sandbox.contexts.list()] == [True]
        way.cut()
        with pytest.raises(ServerUnreachable):
            await running
        await lost.close()
    assert (await sandbox.run_code("x", timeout=10)).text == "7"


async def test_a_process_is_stopped_with_its_client_and_a_detached_one_is_not(
    tenant: Tenant, sandbox: AsyncSandbox
) -> None:
    async def running() -> dict[int, bool]:
        return {one.pid: one.running for one in await sandbox.commands.list()}

    async with proxy(tenant.server.port, "/way") as way:
        lost = await AsyncSandbox.connect(sandbox.id, url=way.url, api_key=tenant.key)
        attached = await lost.commands.start(["sleep", "600"])
        detached = await lost.commands.start(["sleep", "600"], detached=True)
        assert await running() == {attached.pid: True, detached.pid: True}
        follower = await sandbox.commands.connect(attached.pid)
        way.cut()
        await follower.wait()
        await lost.close()
    assert (await running())[detached.pid]
    again = await sandbox.commands.connect(detached.pid)
    await again.kill()
    assert (await again.wait()).signal == 9


async def test_cancelling_a_command_kills_it_inside(sandbox: AsyncSandbox) -> None:
    begun = asyncio.Event()

    async def on_stdout(data: bytes) -> None:
        begun.set()

    running = asyncio.ensure_future(sandbox.commands.run("echo on; exec sleep 600", on_stdout=on_stdout))
    await begun.wait()
    assert [one.running for one in await sandbox.commands.list()] == [True]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not any(one.running for one in await sandbox.commands.list())


async def test_a_long_silence_is_bridged_by_empty_lines(sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of it: the server's lines come in time, and where they do not the client does not wait for ever."""
    monkeypatch.setattr("dayfly.server.streams.ALIVE_SECONDS", 0.05)
    held = sandbox._backend._held  # type: ignore[union-attr]
    send = held.send
    monkeypatch.setattr(held, "send", lambda *args, **how: send(*args, **{**how, "seconds": 0.5}))
    assert (await sandbox.run_code("import time; time.sleep(1); 1")).text == "1"
    monkeypatch.setattr("dayfly.server.streams.ALIVE_SECONDS", 60)
    with pytest.raises(ServerUnreachable, match="was lost"):
        await sandbox.run_code("import time; time.sleep(30)")


# --- the way there ---


async def test_what_a_closed_object_followed_breaks_off(tenant: Tenant, sandbox: AsyncSandbox) -> None:
    other = await AsyncSandbox.connect(sandbox.id, **tenant.at)
    attached = await other.commands.start(["sleep", "600"])
    detached = await other.commands.start(["sleep", "600"], detached=True)
    watch = await other.files.watch(".")
    follower = await sandbox.commands.connect(attached.pid)
    await other.close()
    for waiting in (attached.wait(), detached.wait(), watch.next()):
        with pytest.raises(InputError, match="this object was closed"):
            await waiting
    await follower.wait()
    assert {one.pid for one in await sandbox.commands.list() if one.running} == {detached.pid}


async def test_it_works_behind_a_reverse_proxy_with_a_base_path(tenant: Tenant) -> None:
    async with proxy(tenant.server.port, "/team/dayfly") as way:
        async with AsyncSandbox(TINY, url=way.url + "/", api_key=tenant.key) as sandbox:
            assert (await sandbox.run_code("print('through')")).stdout == "through\n"
            await sandbox.files.write("a b", b"x" * 300_000)
            assert len(await sandbox.files.read("a b")) == 300_000
            assert (await sandbox.commands.run(["cat"], input="in")).text == "in"
            await sandbox.run_code(SERVER_INSIDE)
            async with await sandbox.connect_port(8000) as port:
                await port.write(b"ping")
                assert await port.read() == b"PING"
        assert all(f"Bearer {tenant.key}" in head for head in way.heads)


SERVER_INSIDE = """
import socket, threading
server = socket.create_server(("127.0.0.1", 8000))
def serve():
    while True:
        peer, _ = server.accept()
        while data := peer.recv(65536):
            peer.sendall(data.upper())
        peer.sendall(b"bye")
        peer.close()
threading.Thread(target=serve, daemon=True).start()
"""


async def test_a_port_tells_its_end_and_takes_much(sandbox: AsyncSandbox) -> None:
    await sandbox.run_code(SERVER_INSIDE)
    async with await sandbox.connect_port(8000) as port:
        sending = asyncio.ensure_future(port.write(b"x" * 3_000_000))
        got = 0
        while got < 3_000_000:
            got += len(await port.read())
        await sending
        await port.write_eof()
        rest = b""
        while piece := await port.read():
            rest += piece
        assert (got, rest) == (3_000_000, b"bye")
        assert await port.read() == b""


async def test_many_calls_share_one_client(room: AsyncSandbox) -> None:
    runs = [room.run_code(f"print({number})", context=f"c{number % 3}") for number in range(30)]
    assert [run.stdout for run in await asyncio.gather(*runs)] == [f"{number}\n" for number in range(30)]


async def test_much_output_comes_whole_and_beyond_the_cap_is_counted(tenant: Tenant) -> None:
    async with AsyncSandbox({"image": "tiny", "limits": {"output": "64KiB"}}, **tenant.at) as sandbox:
        run = await sandbox.run_code("print('\\x00\u2603' * 100_000)")
        assert (run.limit, run.dropped) == ("output", 400_001 - 64 * 1024)
        assert len(run.stdout.encode()) <= 64 * 1024 + 2
        assert set(run.stdout) <= {"\x00", "\u2603", "\ufffd"}


# --- the end of the program ---


def test_the_interpreters_end_ends_what_it_made_and_leaves_what_it_found(server: House, tenant: Tenant) -> None:
    script = f"""
from dayfly import Sandbox
at = {tenant.at!r}
own, talk = Sandbox({TINY!r}, **at), Sandbox({TINY!r}, conversation="exit", **at)
own.run_code("1"), talk.run_code("1")
print(own.id, talk.id)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    own, talk = done.stdout.split()
    assert own not in tenant.live
    assert tenant.held(own).end_reason is EndReason.STOPPED
    assert talk in tenant.live
    Sandbox.connect(talk, **tenant.at).close(end=True)


def test_ctrl_c_interrupts_the_run_on_the_server(tenant: Tenant, press_ctrl_c_when: object) -> None:
    begun = threading.Event()
    press_ctrl_c_when(begun)  # type: ignore[operator]
    with Sandbox(TINY, **tenant.at) as sandbox:
        with pytest.raises(KeyboardInterrupt):
            sandbox.run_code(LOOP, on_stdout=lambda _: begun.set())
        assert [one.busy for one in sandbox.contexts.list()] == [False]
        assert sandbox.run_code("1", timeout=5).text == "1"
