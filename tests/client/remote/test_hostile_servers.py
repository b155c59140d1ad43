"""Servers that lie, flood, break off or send elsewhere: the client stays bounded, says what is wrong, and keeps its key."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from typing import Any

import pytest

from dayfly import AsyncSandbox, BadAnswer, DayflyError, HostError, InputError, Outcome, SandboxEnded, ServerUnreachable
from dayfly.client import sandbox as client_sandbox
from dayfly.client.remote.address import Address
from dayfly.client.remote.http import Http
from dayfly.spec import Execution
from tests.client.remote.canned import SANDBOX, Canned, answer, broken_off, canned, lines

KEY = "dfk_abc_topsecret"
STARTED = {"type": "started", "id": "b" * 32}
ENDED = {"type": "end", "execution": {**vars(Execution(Outcome.OK)), "stdout": "", "stderr": "", "results": []}}


async def connected(server: Canned) -> AsyncSandbox:
    return await AsyncSandbox.connect(SANDBOX["id"], url=server.url, api_key=KEY)  # type: ignore[arg-type]


async def run_over(*events: Any) -> Execution:
    """One run that a server answers with these events."""
    async with canned(answer(SANDBOX), lines(*events)) as server, await connected(server) as sandbox:
        return await sandbox.run_code("1")


async def test_a_run_is_what_the_events_say() -> None:
    """The positive control of all below."""
    events = (
        STARTED,
        {"type": "stdout", "text": "a"},
        {"type": "stderr", "text": "b"},
        {"type": "stdout", "text": "c"},
    )
    result = {"type": "result", "result": {"data": {"text/plain": "7"}, "metadata": {}, "is_main": True}}
    run = await run_over(*events, result, ENDED)
    assert (run.outcome, run.stdout, run.stderr, run.text) == (Outcome.OK, "ac", "b", "7")


@pytest.mark.parametrize(
    "event",
    [
        {"type": 7}, {}, {"type": "stdout"}, {"type": "stdout", "text": 7}, {"type": "stdout", "text": None},
        {"type": "end"}, {"type": "end", "execution": {}}, {"type": "end", "execution": {**ENDED["execution"], "outcome": "fine"}},
        {"type": "end", "execution": {**ENDED["execution"], "dropped": -1}}, {"type": "result", "result": []},
        {"type": "result", "result": {"data": {"image/png": "no base64"}, "metadata": {}, "is_main": True}},
        {"type": "started", "id": 7}, {"n": 9, "type": "stdout", "text": "x"}, {"n": "2", "type": "stdout", "text": "x"},
        {"error": {}}, {"error": "x"}, {"type": "stdout", "text": "x" * (4 * 2**20 + 1)},
    ],
)  # fmt: skip
async def test_an_event_that_is_none_ends_the_call_with_a_clear_error(event: dict[str, object]) -> None:
    with pytest.raises(BadAnswer, match="of the same version"):
        await run_over(STARTED, event, ENDED)


async def test_an_end_of_the_sandbox_in_a_stream_is_remembered() -> None:
    told = {"code": "sandbox_ended", "message": "gone", "end_reason": "memory_limit", "end_detail": "1 GiB"}
    async with canned(answer(SANDBOX), lines({"type": "error", "error": told})) as server:
        sandbox = await connected(server)
        for _ in range(2):
            with pytest.raises(SandboxEnded, match=r"gone|memory_limit"):
                await sandbox.run_code("1")
        assert (sandbox.end_reason, len(server.heads)) == ("memory_limit", 2)
        await sandbox.close()


@pytest.mark.parametrize(
    "endless", [b"x" * 65536, b'{"n":2,"type":"stdout","text":"' + b"x" * 65536 + b'"}'], ids=["a line", "a long event"]
)
async def test_a_line_without_end_is_not_kept(endless: bytes) -> None:
    async with canned(answer(SANDBOX), broken_off(b""), endless=endless) as server:
        sandbox = await connected(server)
        with pytest.raises(BadAnswer, match="a line of more than"):
            await sandbox.run_code("1")
        assert server.sent < 64 * 2**20
        await sandbox.close()


async def test_an_answer_without_end_is_not_kept() -> None:
    async with canned(broken_off(b""), endless=b"x" * 2**20) as server:
        with pytest.raises(BadAnswer, match="more than"):
            await connected(server)
        assert server.sent < 100 * 2**20


async def test_more_of_a_file_than_was_asked_for_is_not_taken() -> None:
    async with canned(answer(SANDBOX), answer(b"123456", 206)) as server, await connected(server) as sandbox:
        with pytest.raises(BadAnswer, match="more than the 3 bytes"):
            [piece async for piece in sandbox.files.stream("f", length=3)]
        server.answers[:] = [answer(b"123")]
        with pytest.raises(BadAnswer, match="whole file"):
            [piece async for piece in sandbox.files.stream("f", length=3)]
        server.answers[:] = [answer(b"123", 206)]
        assert b"".join([piece async for piece in sandbox.files.stream("f", length=3)]) == b"123"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_and_the_key_stays(status: int) -> None:
    async with canned(answer(SANDBOX)) as elsewhere:
        moved = answer(b"", status, {"location": f"{elsewhere.url}/v1/sandboxes"})
        async with canned(moved) as server:
            with pytest.raises(BadAnswer, match="redirect") as caught:
                await connected(server)
            assert elsewhere.url in str(caught.value)
        assert elsewhere.heads == []
        await (await connected(elsewhere)).close()
        assert f"Bearer {KEY}" in elsewhere.heads[0], "asked by its own name it gets the key"


async def test_a_port_follows_no_redirect_either() -> None:
    async with canned(answer(b"", 400)) as elsewhere:
        moved = answer(b"", 307, {"location": elsewhere.url.replace("http", "ws") + "/x"})
        async with canned(answer(SANDBOX), moved) as server, await connected(server) as sandbox:
            with pytest.raises(HostError):
                await sandbox.connect_port(80)
            assert f"Bearer {KEY}" in server.heads[-1]
        assert elsewhere.heads == []


async def test_without_tls_no_proxy_of_the_environment_sees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with canned(answer(SANDBOX)) as stranger, canned(answer(SANDBOX)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, stranger.url)
        monkeypatch.delenv("no_proxy", raising=False)
        sandbox = await connected(server)
        server.answers[:] = [answer(b"", 400)]
        with pytest.raises(HostError):
            await sandbox.connect_port(80)
        await sandbox.close()
        assert (len(stranger.heads), len(server.heads)) == (0, 2)


@pytest.mark.parametrize("page", [b"", b"<html>", b'{"detail": "Not Found"}', b'{"error": "x"}', b"[1]"])
@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_another_program_at_the_address_is_told(page: bytes, status: int) -> None:
    async with canned(answer(page, status)) as server:
        with pytest.raises((BadAnswer, ServerUnreachable), match=f"answers {status}") as caught:
            await connected(server)
        assert server.url in str(caught.value)


@pytest.mark.parametrize("garbage", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"])
async def test_what_speaks_no_http_is_unreachable(garbage: bytes) -> None:
    async with canned(garbage) as server:
        with pytest.raises(ServerUnreachable, match="was lost") as caught:
            await connected(server)
        assert server.url in str(caught.value)


async def test_nobody_at_the_address_is_told_with_what_to_do() -> None:
    async with canned(b"") as server:
        pass
    with pytest.raises(ServerUnreachable) as caught:
        await connected(server)
    assert server.url in str(caught.value)
    assert "dayfly serve" in (caught.value.remedy or "")
    assert caught.value.retryable


async def test_the_key_is_in_no_error() -> None:
    async with canned(answer(b"", 500)) as server:
        with pytest.raises(DayflyError) as caught:
            await connected(server)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error}"
        error = error.__cause__ or error.__context__


async def test_a_stream_that_breaks_off_is_an_error_and_no_result() -> None:
    async with canned(
        answer(SANDBOX), broken_off(b'{"n":1,"type":"stdout","text":"half"}\n'), answer(SANDBOX)
    ) as server:
        sandbox = await connected(server)
        with pytest.raises(ServerUnreachable, match="was lost"):
            await sandbox.run_code("1")
        assert len(server.heads) == 3, "it looked whether the sandbox has ended"
        await sandbox.close()


async def test_whoever_reads_when_the_client_closes_hears_of_it() -> None:
    async with canned(broken_off(b"x")) as server:
        http = Http(Address(server.url, KEY))
        answer = await http.send("GET", "/")
        assert await answer.piece() == b"x"
        reading = asyncio.ensure_future(answer.piece())
        await asyncio.sleep(0)
        await http.close()
        async with asyncio.timeout(5):
            with pytest.raises(ServerUnreachable, match="was lost"):
                await reading


async def test_a_stream_that_breaks_off_as_the_sandbox_ends_says_so() -> None:
    ended = {**SANDBOX, "state": "ended", "end_reason": "memory_limit", "end_detail": "1 GiB"}
    async with canned(answer(SANDBOX), broken_off(b"half"), answer(ended)) as server:
        sandbox = await connected(server)
        with pytest.raises(SandboxEnded, match="memory_limit"):
            await sandbox.files.read("f")
        assert sandbox.end_reason == "memory_limit"
        await sandbox.close()


async def test_what_cannot_be_sent_is_the_callers_mistake() -> None:
    async with canned(answer(SANDBOX)) as server, await connected(server) as sandbox:
        for timeout in (float("nan"), object()):
            with pytest.raises(InputError):
                await sandbox.run_code("1", timeout=timeout)  # type: ignore[arg-type]
        assert len(server.heads) == 1


async def test_an_error_of_the_content_is_raised_as_it_is() -> None:
    async def content() -> Any:
        yield b"x"
        raise LookupError("mine")

    async with canned(answer(SANDBOX)) as server, await connected(server) as sandbox:
        with pytest.raises(LookupError, match="mine"):
            await sandbox.files.write("f", content())


@pytest.mark.parametrize("missing", ["aiohttp", "websockets"])
def test_a_library_that_is_missing_is_told_with_its_remedy(missing: str) -> None:
    script = f"""
import asyncio, sys
sys.modules[{missing!r}] = None
from dayfly import HostError, Sandbox
from dayfly.client.remote.address import Address
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import Http
from dayfly.client.remote.ports import PortCalls
from dayfly.client.remote.values import Fields, told_sandbox
async def port():
    calls = PortCalls()
    calls._held = Held(Http(Address("http://127.0.0.1:1", "k")), told_sandbox(Fields({SANDBOX!r}, "x")))
    await calls.connect_port(80)
try:
    Sandbox(url="http://127.0.0.1:1", api_key="k") if {missing!r} == "aiohttp" else asyncio.run(port())
except HostError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert f"needs {missing}" in done.stdout, done.stderr
    assert "pip install 'dayfly[client]'" in done.stdout


def test_importing_the_client_loads_no_library_of_its_own() -> None:
    script = "import sys, dayfly; dayfly.Sandbox, dayfly.ServerUnreachable; print('aiohttp' in sys.modules, 'websockets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("arguments", "clue"),
    [
        ({"url": "http://h"}, "wants a key"),
        ({"api_key": KEY}, "no url"),
        ({"conversation": "c"}, "a server keeps these"),
        ({"template": "t"}, "a server keeps these"),
        ({"url": "http://h", "api_key": KEY, "template": "t", "image": "python"}, "a template is a policy"),
        ({"url": "http://h", "api_key": KEY, "template": ""}, "template must be text"),
        ({"url": "http://h", "api_key": KEY, "conversation": 7}, "conversation must be text"),
        ({"url": "http://h", "api_key": KEY, "opener": object()}, "an opener makes sandboxes itself"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_asked(
    arguments: dict[str, Any], clue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYFLY_URL", raising=False)
    monkeypatch.delenv("DAYFLY_API_KEY", raising=False)
    with pytest.raises(InputError, match=clue) as caught:
        AsyncSandbox(**arguments)
    assert KEY not in str(caught.value)


async def test_connect_without_a_server_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAYFLY_URL", raising=False)
    with pytest.raises(InputError, match="DAYFLY_URL"):
        await AsyncSandbox.connect("a" * 32)


async def test_a_forgotten_sandbox_of_a_server_that_is_gone_is_no_noise() -> None:
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: noise.append(context))
    async with canned(answer(SANDBOX, 201)) as server:
        sandbox = await AsyncSandbox(url=server.url, api_key=KEY).open()
    with pytest.warns(ResourceWarning, match="unclosed <AsyncSandbox"):
        del sandbox
    await asyncio.sleep(0)  # the closing is scheduled
    await asyncio.gather(*client_sandbox._background, return_exceptions=True)
    gc.collect()
    assert noise == []


async def test_a_lost_answer_is_asked_for_again_and_makes_no_second_sandbox() -> None:
    async with canned(broken_off(b"{"), answer(SANDBOX, 201)) as server:
        sandbox = await AsyncSandbox(url=server.url, api_key=KEY).open()
        keys = [line for head in server.heads for line in head.lower().split("\r\n") if "idempotency-key" in line]
        assert len(keys) == 2
        assert keys[0] == keys[1]
        await sandbox.close()


async def test_a_cancelled_opening_ends_what_the_server_made() -> None:
    asked, go = asyncio.Event(), asyncio.Event()
    server = Canned(answers=[answer(SANDBOX, 201), answer({**SANDBOX, "state": "ended", "end_reason": "stopped"})])

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not asked.is_set():
            asked.set()
            await go.wait()
        await server.serve(reader, writer)

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        opening = asyncio.ensure_future(AsyncSandbox(url=url, api_key=KEY).open())
        await asked.wait()
        opening.cancel()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert [head.split()[:2] for head in server.heads] == [
        ["POST", "/v1/sandboxes"],
        ["DELETE", f"/v1/sandboxes/{SANDBOX['id']}"],
    ]
    assert "idempotency-key" in server.heads[0].lower()
