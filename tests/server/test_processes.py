"""Commands over HTTP: their exact bytes, their input, their ends; and ports by WebSocket."""

from __future__ import annotations

import base64
import json
import socket
import struct
from collections.abc import Iterator
from socket import create_connection
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dayfly.server import Configuration, serving
from dayfly.server.app import create_app
from tests.server.house import House


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in answer.iter_lines() if line)


def said(got: list[dict[str, Any]], stream: str = "stdout") -> bytes:
    return b"".join(base64.b64decode(one["data"]) for one in got if one["type"] == stream)


def finish(client: httpx.Client, sandbox: str, *argv: str, **more: Any) -> list[dict[str, Any]]:
    with client.stream("POST", f"{sandbox}/processes", json={"argv": argv, **more}) as answer:
        return list(events(answer))


def is_running(client: httpx.Client, sandbox: str, pid: int) -> bool:
    listed = client.get(f"{sandbox}/processes").json()["processes"]
    return any(one["pid"] == pid and one["running"] for one in listed)


def test_a_command_gives_its_bytes_and_its_end(client: httpx.Client, room: str) -> None:
    got = finish(
        client,
        room,
        "bash",
        "-c",
        r"printf '\xff\x00'; printf err >&2; echo $V; pwd; exit 3",
        env={"V": "v"},
        cwd="/tmp",
    )
    assert [one["n"] for one in got] == list(range(1, len(got) + 1))
    assert got[0]["type"] == "started"
    assert (said(got), said(got, "stderr")) == (b"\xff\x00v\n/tmp\n", b"err")
    end = got[-1]["result"]
    assert (end["outcome"], end["exit_code"], end["signal"], "stdout" in end) == ("error", 3, None, False)
    assert finish(client, room, "sleep", "60", timeout=0.2)[-1]["result"]["outcome"] == "timeout"


def test_what_cannot_start_is_an_error_with_its_own_status(client: httpx.Client, room: str) -> None:
    answer = client.post(f"{room}/processes", json={"argv": ["no-such-program"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "cannot_start")
    for body in ({"argv": []}, {"argv": "ls"}, {"argv": ["a\0b"]}, {"argv": ["true"], "pty": [0, 0]}, {}):
        assert client.post(f"{room}/processes", json=body).status_code == 400
    assert client.get(f"{room}/processes/99999/output").status_code == 404


def test_input_signals_and_the_list(client: httpx.Client, room: str) -> None:
    with client.stream("POST", f"{room}/processes", json={"argv": ["cat"], "stdin": True}) as answer:
        got = events(answer)
        path = f"{room}/processes/{next(got)['pid']}"
        assert client.post(f"{path}/stdin", content=b"one\xff").json() == {}
        assert client.post(f"{path}/stdin?close=true", content=b"two").json() == {}
        rest = list(got)
    assert said(rest) == b"one\xfftwo"
    assert rest[-1]["result"]["exit_code"] == 0
    assert client.post(f"{path}/stdin", content=b"x").json()["error"]["code"] == "no_such_process"
    with client.stream("POST", f"{room}/processes", json={"argv": ["sleep", "60"]}) as answer:
        got = events(answer)
        pid = next(got)["pid"]
        listed = client.get(f"{room}/processes").json()["processes"]
        assert {"pid", "argv", "cwd", "running", "pty", "exit_code", "signal"} == set(listed[0])
        assert is_running(client, room, pid)
        assert client.post(f"{room}/processes/{pid}/signal", json={"signal": 15}).json() == {}
        assert list(got)[-1]["result"]["signal"] == 15


def test_a_terminal_is_resized(client: httpx.Client, room: str) -> None:
    body = {"argv": ["bash", "-c", "read; stty size"], "pty": [10, 20], "stdin": True}
    with client.stream("POST", f"{room}/processes", json=body) as answer:
        got = events(answer)
        path = f"{room}/processes/{next(got)['pid']}"
        assert client.post(f"{path}/resize", json={"rows": 33, "columns": 44}).json() == {}
        client.post(f"{path}/stdin", content=b"\n")
        assert b"33 44" in said(list(got))


def test_when_the_caller_is_gone_an_attached_command_ends_and_a_detached_one_goes_on(
    client: httpx.Client, server: House, room: str
) -> None:
    pids = {}
    for detached in (False, True):
        body = {"argv": ["sh", "-c", "echo begun; sleep 60"], "detached": detached}
        with client.stream("POST", f"{room}/processes", json=body) as answer:
            got = events(answer)
            pids[detached] = next(got)["pid"]
            assert said([next(got)]) == b"begun\n"
    while is_running(client, room, pids[False]):
        pass
    assert is_running(client, room, pids[True])
    with server.client().stream("GET", f"{room}/processes/{pids[True]}/output") as answer:
        got = events(answer)
        assert next(got)["pid"] == pids[True]
        assert said([next(got)]) == b"begun\n"
    assert is_running(client, room, pids[True]), "a reader that goes takes nothing with it"
    client.post(f"{room}/processes/{pids[True]}/signal", json={"signal": 9})


SERVER = "import socket\ns = socket.create_server(('127.0.0.1', 7000))\nprint('up', flush=True)\nc, _ = s.accept()\n"
ECHO = SERVER + "while (d := c.recv(65536)): c.sendall(d.upper())\nc.sendall(b'bye'); c.close()"


def port(server: House, sandbox: str, number: int, secret: str | None = None, **more: Any) -> ClientConnection:
    key = secret or server.key()
    url = f"ws{server.url.removeprefix('http')}{sandbox}/ports/{number}"
    return connect(url, additional_headers={"authorization": f"Bearer {key}"}, compression=None, proxy=None, **more)


def test_a_port_is_bytes_both_ways_until_each_side_has_ended(client: httpx.Client, server: House, room: str) -> None:
    with client.stream("POST", f"{room}/processes", json={"argv": ["python3", "-c", ECHO]}) as answer:
        got = events(answer)
        assert [next(got)["type"], next(got)["type"]] == ["started", "stdout"]
        with port(server, room, 7000) as socket:
            socket.send(b"hello")
            assert socket.recv() == b"HELLO"
            socket.send(b"")  # no more from here
            assert list(socket) == [b"bye"]
            assert socket.close_code == 1000
        assert list(got)[-1]["result"]["exit_code"] == 0


FLOOD = SERVER + "try:\n  while True: c.sendall(bytes(65536))\nexcept OSError: print('closed')"


def test_a_client_that_breaks_off_ends_the_connection_and_is_no_error(
    client: httpx.Client, server: House, sandbox: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client.stream("POST", f"{sandbox}/processes", json={"argv": ["python3", "-c", FLOOD]}) as answer:
        got = events(answer)
        assert [next(got)["type"], next(got)["type"]] == ["started", "stdout"]
        with port(server, sandbox, 7000) as connection:
            connection.recv()
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.socket.shutdown(socket.SHUT_RDWR)
        *rest, end = got
        assert said(rest) == b"closed\n"
        assert end["result"]["exit_code"] == 0
    assert "internal error" not in caplog.text


def test_a_port_is_refused_with_the_documented_error(server: House, client: httpx.Client, room: str) -> None:
    refused = [
        (port, (server, room, 7001), {}, 400, "port_refused"),
        (port, (server, room, 65536), {}, 400, "input_error"),
        (port, (server, room, 7001, server.key("u")), {}, 404, "no_such_sandbox"),
        (port, (server, room, 7001, "wrong"), {}, 401, "unauthenticated"),
        (port, (server, room, 7001, server.key("t", "read")), {}, 403, "not_allowed"),
        (port, (server, room, 7001), {"origin": "https://evil.example"}, 403, "request_refused"),
    ]
    for call, arguments, more, status, code in refused:
        with pytest.raises(InvalidStatus) as caught:
            call(*arguments, **more)
        response = caught.value.response
        assert (response.status_code, json.loads(response.body)["error"]["code"]) == (status, code)


def test_only_the_head_of_a_request_is_waited_for_so_long(
    client: httpx.Client, server: House, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.1)
    for half in (b"", b"GET /healthz HTTP/1.1\r\nHost:", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET "):
        with create_connection(("127.0.0.1", server.port), timeout=20) as raw:
            raw.sendall(half)
            while raw.recv(4096):
                pass
    slow = {"code": "import time; time.sleep(0.3); 1"}
    with client.stream("POST", f"{sandbox}/processes", json={"argv": ["python3", "-c", ECHO]}) as answer:
        got = events(answer)
        assert [next(got)["type"], next(got)["type"]] == ["started", "stdout"]
        with port(server, sandbox, 7000) as socket:
            assert client.post(f"{sandbox}/executions", json=slow).json()["outcome"] == "ok", (
                "it takes as long as it takes"
            )
            socket.send(b"hello")
            assert socket.recv() == b"HELLO"


def test_open_connections_are_kept_for_longer_than_callers_keep_them(server: House) -> None:
    settings = serving._settings(create_app(server.services), Configuration())
    proxies, httpx_default = 60.0, httpx.Limits().keepalive_expiry
    assert settings.timeout_keep_alive > max(proxies, httpx_default or 0.0)


def test_text_is_not_taken_for_bytes(client: httpx.Client, server: House, sandbox: str) -> None:
    with client.stream("POST", f"{sandbox}/processes", json={"argv": ["python3", "-c", ECHO]}) as answer:
        got = events(answer)
        assert [next(got)["type"], next(got)["type"]] == ["started", "stdout"]
        with port(server, sandbox, 7000) as socket:
            socket.send("text")
            with pytest.raises(ConnectionClosedError):
                socket.recv()
            assert socket.close_code == 1003
