"""Where code may connect to, over real gVisor and a real gateway, embedded and over a URL: what it is given, what is taken away
from it while it lives, and what it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dayfly import AsyncSandbox, PolicyError, Rule, Sandbox, SandboxEnded
from tests.machine import image, local_names

NAMES = local_names()

pytestmark = [
    pytest.mark.gvisor,
    pytest.mark.usefixtures("over"),
    pytest.mark.skipif(not NAMES, reason="/etc/hosts has no name for loopback but localhost"),
]

FETCH = "import urllib.request\nprint(urllib.request.urlopen({!r}, timeout=10).read().decode(), end='')"
RESOLVE = "import socket\nprint(socket.getaddrinfo({!r}, 443))"
HOLD = "import socket, sys\ns = socket.create_connection(({!r}, {}))\ns.recv(1)\nprint('there', flush=True)\nsys.exit(len(s.recv(1)))"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"hello {self.path}".encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module", autouse=True)
def smallest() -> None:
    image("tiny")


@pytest.fixture(scope="module")
def canary() -> Iterator[int]:
    """The port of a web server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def connected(over: str, canary: int) -> Iterator[Sandbox]:
    """One sandbox for the tests that leave its rules as they are."""
    with Sandbox({"image": "tiny", "network": [rule(canary)]}) as sandbox:
        yield sandbox


def rule(port: int, protocol: str = "http") -> dict[str, Any]:
    return {"host": NAMES[0], "ports": [port], "protocol": protocol, "private": "127.0.0.0/8"}


def fetched(sandbox: Sandbox, port: int, path: str = "/") -> str:
    execution = sandbox.run_code(FETCH.format(f"http://{NAMES[0]}:{port}{path}"), timeout=30)
    return execution.stdout or (execution.error.value if execution.error else "")


def listening(sandbox: Sandbox) -> tuple[bool, bool]:
    """Whether anybody inside waits for connections, and for packets."""
    code = "for kind in ('tcp', 'udp'): print(open(f'/proc/net/{kind}').read(), end='=')"
    streams, packets, _ = sandbox.run_code(code).stdout.split("=")
    return " 0A " in streams, ":0035 " in packets


def test_what_is_listed_is_reached_and_what_is_not_is_told(connected: Sandbox, canary: int) -> None:
    assert fetched(connected, canary, "/a") == "hello /a"
    execution = connected.run_code(RESOLVE.format("other.example.com"))
    assert not execution.ok
    (denied,) = {(one.host, one.port, one.code, one.claimed) for one in execution.denied}
    assert denied == ("other.example.com", None, "not_listed", True)
    result = connected.commands.run(["python3", "-c", RESOLVE.format("third.example.com")])
    assert [one.host for one in result.denied] == ["third.example.com"]
    assert connected.run_code("1").denied == ()


def test_a_live_sandbox_is_given_a_network_and_it_is_taken_away_again(canary: int) -> None:
    with Sandbox(image="tiny") as sandbox, socket.create_server(("127.0.0.1", 0)) as raw:
        assert "name resolution" in fetched(sandbox, canary) or "not known" in fetched(sandbox, canary)
        port = raw.getsockname()[1]
        sandbox.set_network([rule(canary), Rule(**rule(port, "tcp"))])
        assert [one.ports for one in sandbox.policy.network] == [(canary,), (port,)]  # type: ignore[union-attr]
        assert fetched(sandbox, canary, "/b") == "hello /b"
        assert all(listening(sandbox)), "the control"
        with sandbox.commands.start(["python3", "-c", HOLD.format(NAMES[0], port)]) as held:
            peer, _ = raw.accept()
            with peer:
                peer.sendall(b"1")
                assert next(held.output()).data == b"there\n"
                sandbox.set_network("none")
                peer.settimeout(5)
                with suppress(ConnectionResetError):
                    assert peer.recv(1) == b"", "it was cut"
            assert held.wait().exit_code is not None
        assert sandbox.policy.network == "none"
        assert "hello" not in fetched(sandbox, canary)
        assert not any(listening(sandbox)), "nobody listens inside any more"
        assert sandbox.run_code(RESOLVE.format(NAMES[0])).error is not None


def test_one_rule_less_leaves_the_others_as_they_are(canary: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as raw:
        port = raw.getsockname()[1]
        policy = {"image": "tiny", "network": [rule(canary), rule(port, "tcp")]}
        with Sandbox(policy) as sandbox:
            with sandbox.commands.start(["python3", "-c", HOLD.format(NAMES[0], port)]) as held:
                peer, _ = raw.accept()
                with peer:
                    peer.sendall(b"1")  # from here on it is a connection, and not one that is being made
                    assert next(held.output()).data == b"there\n"
                    sandbox.set_network([rule(port, "tcp")])
                    peer.sendall(b"x")
                    assert held.wait().exit_code == 1, "it read a byte"
            assert "hello" not in fetched(sandbox, canary)


@pytest.mark.parametrize(
    "rules",
    ["all", None, 7, {"host": "a.example.com"}, [{"host": "*"}], [{"host": "*.com"}], [{"host": "10.0.0.1"}], [{}]],
)
def test_wrong_rules_change_nothing(connected: Sandbox, canary: int, rules: Any) -> None:
    before = connected.policy.network
    with pytest.raises(PolicyError) as refused:
        connected.set_network(rules)
    assert refused.value.remedy
    assert connected.policy.network == before
    assert fetched(connected, canary) == "hello /"


def test_over_a_url_the_operators_list_is_what_may_be_named(over: str) -> None:
    with Sandbox(image="tiny") as sandbox:
        if over == "embedded":
            sandbox.set_network([{"host": "api.example.com"}])
            return
        with pytest.raises(PolicyError, match=r"api\.example\.com.* is not a name"):
            sandbox.set_network([{"host": "api.example.com"}])
        with pytest.raises(PolicyError, match="private"):
            sandbox.set_network([{**rule(80), "private": "10.0.0.0/8"}])
        assert sandbox.policy.network == "none"


def test_a_pause_and_a_copy_keep_what_was_changed(canary: int) -> None:
    with Sandbox(image="tiny") as sandbox:
        sandbox.set_network([rule(canary)])
        sandbox.pause()
        with pytest.raises(SandboxEnded, match="paused"):
            sandbox.set_network("none")
        sandbox.resume()
        assert fetched(sandbox, canary, "/after") == "hello /after"
        (copy,) = sandbox.fork()
        with copy:
            sandbox.set_network([])
            assert (sandbox.policy.network, len(copy.policy.network)) == ("none", 1)
            assert fetched(copy, canary, "/copy") == "hello /copy"
            assert "hello" not in fetched(sandbox, canary)


async def test_what_has_ended_cannot_be_changed() -> None:
    async with AsyncSandbox(image="tiny") as sandbox:
        await sandbox.set_network([])
    with pytest.raises(SandboxEnded):
        await sandbox.set_network([])
