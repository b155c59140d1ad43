"""Runs over HTTP: whole and in events, interrupted, left alone, kept, and held up by nobody but their own reader."""

from __future__ import annotations

import gc
import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dayfly.errors import InputError
from dayfly.server import running
from dayfly.server.running import Log
from dayfly.server.streams import Lines
from tests.server.house import TINY, House

NDJSON = {"accept": "application/x-ndjson"}


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in answer.iter_lines() if line)


def run(client: httpx.Client, sandbox: str, code: str, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{sandbox}/executions", json={"code": code, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_whole_execution(client: httpx.Client, room: str) -> None:
    done = run(client, room, "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert (done["outcome"], done["stdout"], done["stderr"]) == ("ok", "out\n", "err\n")
    assert done["results"] == [{"data": {"text/plain": "42"}, "metadata": {}, "is_main": True}]
    failed = run(client, room, "1/0")
    assert (failed["outcome"], failed["error"]["name"]) == ("error", "ZeroDivisionError")
    assert run(client, room, "while True: pass", timeout=0.3)["outcome"] == "timeout"
    assert run(client, room, "print('x' * 5000)", output=100)["dropped"] == 4901


def test_contexts_keep_their_variables_until_they_are_removed(client: httpx.Client, room: str) -> None:
    run(client, room, "x = 1", context="a")
    assert run(client, room, "x", context="b")["outcome"] == "error"
    listed = client.get(f"{room}/contexts").json()["contexts"]
    assert {(one["name"], one["language"], one["busy"]) for one in listed} >= {("a", "python", False)}
    assert client.delete(f"{room}/contexts/a").status_code == 200
    assert run(client, room, "x", context="a")["outcome"] == "error"
    assert client.delete(f"{room}/contexts/none").status_code == 400


def test_events_are_numbered_and_end_with_the_execution(client: httpx.Client, room: str) -> None:
    code = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); 42"
    with client.stream("POST", f"{room}/executions", json={"code": code}, headers=NDJSON) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        got = list(events(answer))
    assert [one["n"] for one in got] == list(range(1, len(got) + 1))
    assert (got[0]["type"], got[-1]["type"]) == ("started", "end")
    assert {(one["type"], one.get("text")) for one in got} >= {("stdout", "out\n"), ("stderr", "err\n")}
    assert [one["result"]["data"] for one in got if one["type"] == "result"] == [{"text/plain": "42"}]
    end = got[-1]["execution"]
    assert (end["outcome"], end["stdout"], end["results"]) == ("ok", "", [])


def test_an_error_before_the_run_is_the_last_event(client: httpx.Client, room: str) -> None:
    with client.stream("POST", f"{room}/executions", json={"code": "1", "language": "cobol"}, headers=NDJSON) as answer:
        last = list(events(answer))[-1]
    assert (last["type"], last["error"]["code"]) == ("error", "unknown_language")
    assert client.post(f"{room}/executions", json={"code": "1", "language": "cobol"}).status_code == 400


def test_a_sandbox_that_ends_under_a_run_ends_its_stream(client: httpx.Client) -> None:
    path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
    body = {"code": "import time\nprint('here', flush=True)\ntime.sleep(60)"}
    with client.stream("POST", f"{path}/executions", json=body, headers=NDJSON) as answer:
        got = events(answer)
        assert [next(got)["type"], next(got)["type"]] == ["started", "stdout"]
        client.delete(path)
        end = list(got)[-1]["execution"]
    assert (end["outcome"], end["end_reason"]) == ("sandbox_ended", "stopped")


WAITING = """
import time
try:
    open("here", "w").close()
    print("here", flush=True)
    time.sleep(60)
finally:
    seen = "interrupted"
"""


WORKING = "sum(range(10**6))\n" + WAITING
"""Of which the CPU time is not less than can be seen."""


@pytest.mark.parametrize("accept", [{}, NDJSON])
def test_a_caller_that_is_gone_has_its_run_interrupted(
    client: httpx.Client, server: House, sandbox: str, accept: dict[str, str]
) -> None:
    body = json.dumps({"code": WAITING}).encode()
    head = f"POST {sandbox}/executions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key()}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in accept.items())
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        while client.get(f"{sandbox}/files/info?path=here").status_code != 200:
            pass
    assert run(client, sandbox, "seen")["results"][0]["data"]["text/plain"] == "'interrupted'", "it waited for its turn"


def test_a_run_is_interrupted_by_its_id_and_says_so(client: httpx.Client, room: str) -> None:
    with client.stream("POST", f"{room}/executions", json={"code": WORKING}, headers=NDJSON) as answer:
        got = events(answer)
        path = f"{room}/executions/{next(got)['id']}"
        assert next(got)["text"] == "here\n"
        assert client.post(f"{path}/interrupt").json() == {"interrupted": True}
        end = list(got)[-1]["execution"]
    assert (end["outcome"], end["state_survived"], end["error"]["name"]) == ("interrupted", True, "KeyboardInterrupt")
    assert end["cpu_seconds"] > 0
    assert client.post(f"{path}/interrupt").json()["error"]["code"] == "no_such_execution"
    assert run(client, room, "seen")["outcome"] == "ok"


def test_what_an_interrupt_had_to_kill_says_that_its_state_is_gone(client: httpx.Client, sandbox: str) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
    )
    with client.stream("POST", f"{sandbox}/executions", json={"code": deaf}, headers=NDJSON) as answer:
        got = events(answer)
        path = f"{sandbox}/executions/{next(got)['id']}"
        assert next(got)["text"] == "here\n"
        client.post(f"{path}/interrupt")
        end = list(got)[-1]["execution"]
    assert (end["outcome"], end["state_survived"]) == ("interrupted", False)
    assert run(client, sandbox, "1")["outcome"] == "ok"


def test_a_kept_run_goes_on_and_is_read_again_from_any_event(client: httpx.Client, server: House, room: str) -> None:
    code = "import time\nfor i in range(5): print(i, flush=True); time.sleep(0.05)"
    body = {"code": code, "on_disconnect": "keep"}
    with client.stream("POST", f"{room}/executions", json=body, headers=NDJSON) as answer:
        path = f"{room}/executions/{next(events(answer))['id']}"
    with client.stream("GET", path) as answer:
        whole = list(events(answer))
    assert "".join(one.get("text", "") for one in whole) == "0\n1\n2\n3\n4\n"
    assert whole[-1]["execution"]["outcome"] == "ok"
    for after in (0, 1, len(whole) - 1, len(whole)):
        with client.stream("GET", path, params={"after": after}) as answer:
            assert list(events(answer)) == whole[after:]
    assert server.client("u").get(path).json()["error"]["code"] == "no_such_sandbox"
    assert client.get(f"{room}/executions/{'0' * 32}").json()["error"]["code"] == "no_such_execution"
    assert client.post(f"{path}/interrupt").json() == {"interrupted": False}


def test_a_slow_reader_holds_up_its_own_run_only(client: httpx.Client, server: House, sandbox: str) -> None:
    flood = "import sys\nfor i in range(64): sys.stdout.write('x' * 65536)\nprint(flush=True)\ndone = True"
    body = json.dumps({"code": flood}).encode()
    head = f"POST {sandbox}/executions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key()}\r\n"
    head += "Accept: application/x-ndjson\r\nContent-Type: application/json\r\n"
    other = client.post("/v1/sandboxes", json={"policy": TINY}).json()["id"]
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", server.port))
    raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    while not any(one["busy"] for one in client.get(f"{sandbox}/contexts").json()["contexts"]):
        pass
    for _ in range(10):
        assert run(client, f"/v1/sandboxes/{other}", "1")["outcome"] == "ok"
    assert any(one["busy"] for one in client.get(f"{sandbox}/contexts").json()["contexts"]), "it waits for its reader"
    received = 0
    while (piece := raw.recv(1 << 20)) and not piece.endswith(b"0\r\n\r\n"):
        received += len(piece)
    raw.close()
    assert received > 4_000_000
    assert run(client, sandbox, "done")["outcome"] == "ok"
    client.delete(f"/v1/sandboxes/{other}")


def test_what_code_shows_is_data(client: httpx.Client, room: str) -> None:
    """Numbers that JSON has not, halves of characters, and pictures."""
    shows = "display({'application/json': float('nan'), 'image/png': b'\\x89PNG'}, raw=True)"
    assert run(client, room, "print('\\ud800'.encode('utf-8', 'surrogatepass'))")["outcome"] == "ok"
    assert run(client, room, "import sys; sys.stdout.buffer.write(b'\\xff\\x00\\n')")["stdout"] == "\ufffd\x00\n"
    past = "import sys; text = 'a\\n' * 300 + 'b'; print(text); out = sys.stdout.buffer"
    assert run(client, room, past)["stdout"] == "a\n" * 300 + "b\n", "what a flood keeps back comes with its run"
    assert run(client, room, "_ = out.write(b'late'); sys.stdout.write('x'); 1")["stdout"] == "latex"
    assert run(client, room, "_ = out.write(b'past the text')")["stdout"] == "past the text"
    (shown,) = run(client, room, shows)["results"]
    assert shown["data"] == {"image/png": b64encode(b"\x89PNG").decode()}, "what is no JSON is left out inside already"


async def test_what_is_kept_is_bounded_and_says_what_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_OF_RUN", 200)
    log = Log()
    for number in range(20):
        await log.write({"text": str(number) * 10})
    log.close()
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message["body"])

    with pytest.raises(InputError, match="forgotten"):
        await log.follow(0, Lines(send, None))
    lines = Lines(send, None)
    await log.follow(log.first - 1, lines)
    await lines.end()
    assert [json.loads(line)["n"] for line in b"".join(sent).splitlines()] == list(range(log.first, 21))
    assert log.size <= 200


def test_kept_runs_are_bounded_in_number_and_the_oldest_are_forgotten(
    client: httpx.Client, server: House, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_RUNS", 2)
    monkeypatch.setattr(running, "MOST_UNDER_WAY", 1)
    paths = []
    for number in range(4):
        body = {"code": str(number), "on_disconnect": "keep"}
        with client.stream("POST", f"{sandbox}/executions", json=body, headers=NDJSON) as answer:
            got = list(events(answer))
            paths.append(f"{sandbox}/executions/{got[0]['id']}")
    assert [client.get(path).status_code for path in paths][2:] == [200, 200]
    assert client.get(paths[0]).json()["error"]["code"] == "no_such_execution"
    gc.collect()
    assert sum(type(one) is Log for one in gc.get_objects()) <= 2, "no timer holds what is forgotten"
    with client.stream(
        "POST", f"{sandbox}/executions", json={"code": WAITING, "on_disconnect": "keep"}, headers=NDJSON
    ) as answer:
        first = next(events(answer))
        body = {"code": "1", "on_disconnect": "keep"}
        with client.stream("POST", f"{sandbox}/executions", json=body, headers=NDJSON) as refused:
            assert [one["error"]["code"] for one in events(refused)] == ["busy_error"]
        client.post(f"{sandbox}/executions/{first['id']}/interrupt")


def test_two_readers_of_a_kept_run_both_get_all(client: httpx.Client, server: House, room: str) -> None:
    body = {"code": "import time; time.sleep(0.3); print('end')", "on_disconnect": "keep"}
    with client.stream("POST", f"{room}/executions", json=body, headers=NDJSON) as answer:
        path = f"{room}/executions/{next(events(answer))['id']}"
        got: list[list[dict[str, Any]]] = []

        def read() -> None:
            with server.client().stream("GET", path) as other:
                got.append(list(events(other)))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
    assert [one[-1]["execution"]["outcome"] for one in got] == ["ok", "ok"]
