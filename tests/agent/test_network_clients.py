"""Clients that everybody uses, unmodified and without a proxy variable, in a real sandbox: they find a name and arrive."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly.boundaries.gvisor import GvisorBoundary
from tests.agent.conftest import open_room
from tests.agent.host import Host, Taken
from tests.turns import one_a_day

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

REFS = (
    b"001e# service=git-upload-pack\n0000"
    + b"003f"
    + b"7217a7c7e582c46cec22a130adf4b9d7d950fba0 refs/heads/main\0 \n"
    + b"0000"
)


def server_name(hello: bytes) -> str:
    """The name in a ClientHello that one TLS record holds (RFC 8446, 4.1.2; RFC 6066, 3)."""
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]  # session
    at += 2 + int.from_bytes(hello[at : at + 2], "big")  # cipher suites
    at += 1 + hello[at]  # compression
    at += 2
    while at < len(hello):
        kind, size = struct.unpack_from("!HH", hello, at)
        if kind == 0:
            return hello[at + 9 : at + 4 + size].decode("ascii")
        at += 4 + size
    return ""


class Web:
    """A plain HTTP server for every name, and the end of every TLS handshake after its first message."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str]] = []  # name, port, request line
        self.greeted: list[tuple[str, int, str]] = []  # name, port, server name
        self.refused: list[str] = []

    def serve(self, taken: Taken) -> None:
        if taken.op == "tunnel":
            taken.connected()
            taken.react = self._heard
        else:
            self.refused += [one["host"] for one in taken.params["names"]]
            taken.finish()

    def _heard(self, taken: Taken) -> None:
        said = taken.stdin
        if taken.done:
            return
        if said[:1] == b"\x16" and len(said) >= 5 + int.from_bytes(said[3:5], "big"):
            self.greeted.append((*taken.place, server_name(said)))
            taken.answer(b"\x15\x03\x03\0\2\2\x28")  # alert: handshake failure
            taken.finish()
        elif b"\r\n\r\n" in said:
            self._answer(taken, said)
        elif taken.cancelled or 0 in taken.ended:
            taken.finish()

    def _answer(self, taken: Taken, said: bytes) -> None:
        line = said.split(b"\r\n")[0].decode()
        self.asked.append((*taken.place, line))
        git = "/info/refs" in line
        body = REFS if git else b'{"hello": "inside"}'
        kind = b"application/x-git-upload-pack-advertisement" if git else b"application/json"
        taken.answer(
            b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
            % (kind, len(body))
            + body
        )
        taken.finish()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def data(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    async with open_room(gvisor, agents, "data") as host:
        listed = [("api.example", [80, 443]), ("*.wild.example", [80, 443])]
        await host.ask("network", names=[{"host": name, "ports": ports} for name, ports in listed])
        yield host


@pytest.fixture
def web(data: Host) -> Web:
    made = Web()
    data.serve = made.serve
    return made


CLIENTS = {
    "curl": "curl -sS --max-time 20 http://{name}/x",
    "urllib": "python3 -c \"import urllib.request as r; print(r.urlopen('http://{name}/x', timeout=20).read().decode())\"",
    "requests": "python3 -c \"import requests; print(requests.get('http://{name}/x', timeout=20).text)\"",
    "httpx": "python3 -c \"import httpx; print(httpx.get('http://{name}/x', timeout=20).text)\"",
    "node fetch": "node -e \"fetch('http://{name}/x').then(r => r.text()).then(console.log)\"",
    "node http": "node -e \"require('http').get('http://{name}/x', r => r.pipe(process.stdout))\"",
    "curl by proxy": "curl -sS --max-time 20 -x http://127.0.0.1:3128 http://{name}/x",
    "curl by tunnel": "curl -sS --max-time 20 -p -x http://127.0.0.1:3128 http://{name}/x",
    "curl by socks": "curl -sS --max-time 20 -x socks5h://127.0.0.1:1080 http://{name}/x",
    "curl by socks that resolves itself": "curl -sS --max-time 20 -x socks5://127.0.0.1:1080 http://{name}/x",
    "requests by proxy": (
        "python3 -c \"import requests; print(requests.get('http://{name}/x', timeout=20, "
        "proxies=dict(http='http://127.0.0.1:3128')).text)\""
    ),
}


@pytest.mark.parametrize("name", one_a_day(["api.example", "b.wild.example"]))
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_gets_its_answer(data: Host, web: Web, client: str, name: str) -> None:
    out = await data.out(f"env | grep -i proxy; {CLIENTS[client].format(name=name)}")
    assert json.loads(out) == {"hello": "inside"}
    assert web.asked == [(name, 80, "GET /x HTTP/1.1")]
    assert web.refused == []


async def test_git_lists_what_a_server_has(data: Host, web: Web) -> None:
    out = await data.out("git ls-remote http://api.example/repo.git")
    assert out == b"7217a7c7e582c46cec22a130adf4b9d7d950fba0\trefs/heads/main\n"
    assert web.asked == [("api.example", 80, "GET /repo.git/info/refs?service=git-upload-pack HTTP/1.1")]


TLS = {
    "curl": "curl -sS --max-time 20 https://{name}/",
    "requests": "python3 -c \"import requests; requests.get('https://{name}/', timeout=20)\"",
    "ssl": (
        "python3 -c \"import socket, ssl; s = socket.create_connection(('{name}', 443), 20); "
        "ssl.create_default_context().wrap_socket(s, server_hostname='{name}')\""
    ),
    "node fetch": "node -e \"fetch('https://{name}/').catch(e => {{ console.error(e.cause); process.exit(1) }})\"",
    "git": "git ls-remote https://{name}/repo.git",
    "pip": "python3 -m pip download --no-input --retries 0 --timeout 20 --disable-pip-version-check -i https://{name}/simple x",
    "curl by proxy": "curl -sS --max-time 20 -x http://127.0.0.1:3128 https://{name}/",
    "requests by proxy": (
        "python3 -c \"import requests; requests.get('https://{name}/', timeout=20, proxies=dict(https='http://127.0.0.1:3128'))\""
    ),
}


@pytest.mark.parametrize("client", TLS)
async def test_a_tls_client_arrives_with_the_name_in_its_first_message(data: Host, web: Web, client: str) -> None:
    call = await data.shell(TLS[client].format(name="api.example"))
    await call.result()
    assert ("api.example", 443, "api.example") in web.greeted, (call.stdout, call.stderr)
    assert web.refused == []


UNKNOWN = {
    "getaddrinfo": ("python3 -c \"import socket; socket.getaddrinfo('evil.example', 443)\"", b"not known"),
    "curl": ("curl -sS --max-time 20 http://evil.example/", b"Could not resolve host"),
    "node": (
        "node -e \"require('dns').resolve4('evil.example', e => {{ console.error(e); process.exit(1) }})\"",
        b"ENOTFOUND",
    ),
    "curl by proxy": (
        "curl -sS --fail-with-body -x http://127.0.0.1:3128 http://evil.example/",
        b"no rule allows evil.example",
    ),
}


@pytest.mark.parametrize("client", UNKNOWN)
async def test_an_unknown_name_fails_at_once_and_for_good(data: Host, web: Web, client: str) -> None:
    def serve(taken: Taken) -> None:
        web.serve(taken) if taken.op != "tunnel" else taken.fail("denied", "no rule allows evil.example")

    data.serve = serve
    line, expected = UNKNOWN[client]
    call = await data.shell(f"time timeout 10 {line}")
    await call.result()
    assert expected in call.stdout + call.stderr, (call.stdout, call.stderr)
    assert b"real\t0m0" in call.stderr or b"real\t0m1" in call.stderr
    if "proxy" not in client:
        assert set(web.refused) == {"evil.example"}


async def test_localhost_and_the_codes_own_servers_are_as_ever(data: Host, web: Web) -> None:
    code = """
import http.server, socket, threading, urllib.request
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *ignored): pass
server = http.server.ThreadingHTTPServer(("0.0.0.0", 80), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen("http://localhost/", timeout=20).read()
print(urllib.request.urlopen("http://api.example/", timeout=20).read().decode())
print(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[-1][4][0])
"""
    await data.out("curl -sS http://api.example/ >/dev/null")  # somebody listens for the name by now
    call = await data.python(code)
    await call.result()
    assert call.stdout.splitlines()[0] == b'{"hello": "inside"}', call.stderr
    assert call.stdout.splitlines()[1] in (b"127.0.0.1", b"::1")


async def test_an_address_that_is_no_names_dies_inside(data: Host, web: Web) -> None:
    for address in ("8.8.8.8", "169.254.169.254", "127.64.99.99"):
        call = await data.shell(f"curl -sS --max-time 5 http://{address}/")
        assert (await call.result())["exit_code"] == 7
    assert web.asked == []
