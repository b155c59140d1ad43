"""The two proxies inside, with clients that behave and clients that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.host import Host, Taken
from tests.agent.test_network_inside import echo, inside, names, refuse, said

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

PROXIES = """
def proxy(port=3128):
    return socket.create_connection(("127.0.0.1", port), timeout=20)

def talk(port, *messages):
    peer = proxy(port)
    for message in messages:
        peer.sendall(message)
    return everything(peer).decode("latin-1")

def request(name, port, command=1):
    return struct.pack("!BBBBB", 5, command, 0, 3, len(name)) + name.encode() + struct.pack("!H", port)

def literal(address, port):
    return b"\\5\\1\\0\\1" + socket.inet_aton(address) + struct.pack("!H", port)

def socks(asked, data=b""):
    peer = proxy(1080)
    peer.sendall(b"\\5\\1\\0" + asked + data)
    peer.shutdown(socket.SHUT_WR)
    return everything(peer).decode("latin-1")
"""


async def talked(host: Host, code: str) -> Any:
    return await said(host, PROXIES + code)


@pytest.fixture(autouse=True)
def _clean(connected: Host) -> None:
    connected.taken.clear()
    connected.serve = echo


def http(taken: Taken) -> None:
    """A destination that answers each request with its own bytes, and closes."""

    def react(taken: Taken) -> None:
        if b"\r\n\r\n" in taken.stdin and not taken.done and not taken.ended:
            body = taken.stdin
            taken.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            taken.finish()

    if taken.op == "tunnel":
        taken.connected()
        taken.react = react
    else:
        taken.finish()


async def test_connect_opens_a_tunnel_by_name(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = r"""
peer = proxy()
peer.sendall(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nearly ")
peer.sendall(b"late")
peer.shutdown(socket.SHUT_WR)
print(json.dumps(everything(peer).decode()))
"""
    assert await talked(connected, code) == ("HTTP/1.1 200 Connection established\r\n\r\na.example:443 early late")


async def test_a_name_that_is_not_listed_is_asked_of_the_host_which_says_why_not(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    connected.serve = refuse("denied", "b.example: no rule allows it")
    code = r"""
asked = b"CONNECT b.example:22 HTTP/1.1\r\nHost: b.example:22\r\n\r\n", b"GET http://8.8.8.8/ HTTP/1.1\r\nHost: 8.8.8.8\r\n\r\n"
print(json.dumps([talk(3128, one) for one in asked]))
"""
    for answer in await talked(connected, code):
        assert answer.startswith("HTTP/1.1 403 Forbidden\r\n")
        assert answer.endswith("\r\n\r\nb.example: no rule allows it\n")
    assert [taken.place for taken in connected.taken] == [("b.example", 22), ("8.8.8.8", 80)]


async def test_an_absolute_form_is_one_request_in_origin_form(connected: Host) -> None:
    await names(connected, ("a.example", [80]))
    connected.serve = http
    code = r"""
print(json.dumps(talk(3128, b"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nProxy-Connection: keep-alive\r\n\r\n"
                            b"GET http://b.example/second HTTP/1.1\r\nHost: b.example\r\n\r\n")))
"""
    answer = await talked(connected, code)
    assert answer.partition("\r\n\r\n")[2] == "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
    assert [taken.place for taken in connected.taken] == [("a.example", 80)]


async def test_a_body_goes_on_to_its_length_and_no_further(connected: Host) -> None:
    await names(connected, ("a.example", [80]))
    connected.serve = lambda taken: taken.connected()
    code = r"""
peer = proxy()
peer.sendall(b"PUT http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 300000\r\n\r\n" + bytes(1000))
peer.sendall(bytes(299000) + b"GET http://b.example/ HTTP/1.1\r\n\r\n")
print(json.dumps(everything(peer).decode()))
"""
    call = await inside(connected, PROXIES + code)
    taken = await connected.accepted()
    await connected.until(lambda: len(taken.stdin.partition(b"\r\n\r\n")[2]) == 300_000)
    await connected.ask("usage")
    taken.answer(b"HTTP/1.1 204 No Content\r\n\r\n")
    taken.finish()
    await connected.flush()
    await call.result()
    assert b"b.example" not in taken.stdin
    assert json.loads(call.stdout) == "HTTP/1.1 204 No Content\r\n\r\n"


async def test_a_request_that_does_not_fit_is_answered_and_opens_nothing(connected: Host) -> None:
    await names(connected, ("a.example", [80]))
    code = r"""
print(json.dumps([talk(3128, one)[9:12] for one in (
    b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"TRACE http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + b"x" * 65536,
    b"\x16\x03\x01\x02\x00",
)]))
"""
    assert await talked(connected, code) == ["400", "405", "411", "431", "400"]
    assert connected.taken == []


async def test_slow_and_many_clients_hold_up_nobody(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = r"""
slow = [proxy(port) for port in (3128, 1080) for _ in range(30)]
for peer in slow: peer.send(b"C" if peer.getpeername()[1] == 3128 else b"\5")
found = [socks(request("a.example", 443))[-14:]]
crowd = []
try:
    for _ in range(40):
        crowd.append(proxy())
        crowd[-1].send(b"C")
    for peer in crowd:
        peer.settimeout(0.01)
        try:
            peer.recv(1)
        except TimeoutError:
            pass
except OSError as error:
    found.append(type(error).__name__)
for peer in slow + crowd: peer.close()
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    try:
        found.append(socks(request("a.example", 443))[-14:])
        break
    except OSError: pass
print(json.dumps(found))
"""
    assert await talked(connected, code) == ["a.example:443 ", "ConnectionResetError", "a.example:443 "]


async def test_socks_opens_a_tunnel_by_name(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = r"""print(json.dumps(socks(request("A.example.", 443), b"early")))"""
    assert await talked(connected, code) == "\5\0" + "\5\0\0\1" + "\0" * 6 + "a.example:443 early"


async def test_socks_takes_the_address_of_a_name_and_no_other(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = r"""
own = literal(resolve("a.example")[1], 443)
six = b"\5\1\0\4" + bytes(16) + b"\1\xbb"
print(json.dumps([socks(own)[-14:], *(ord(socks(one)[3]) for one in (literal("8.8.8.8", 443), literal("127.0.0.1", 22), six))]))
"""
    assert await talked(connected, code) == ["a.example:443 ", 8, 8, 8]


async def test_socks_says_no_in_its_own_language(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = r"""
found = [ord(socks(one)[3]) for one in (
    request("a.example", 443, 2), request("a.example", 443, 3), request("a.example", 0), request("", 443),
    request("a b.example", 443), request("a\n.example", 443), b"\5\1\0\7xxxxxx", request("a.example..", 443),
)]
found.append(talk(1080, b"\5\1\2"))
found.append(talk(1080, b"\4\1\0\x50\x7f\0\0\1\0"))
print(json.dumps(found))
"""
    assert await talked(connected, code) == [7, 7, 1, 1, 1, 1, 8, 1, "\5\xff", ""]
    assert connected.taken == []
    for code_, expected in (("denied", 2), ("unreachable", 4)):
        connected.serve = refuse(code_, "no")
        assert await talked(connected, """print(json.dumps(ord(socks(request("b.example", 1))[3])))""") == expected


async def test_new_names_under_a_wildcard_are_few_for_the_proxies_too(connected: Host) -> None:
    """The last of the module's tests on this: it uses up the minute."""
    await names(connected, ("*.wild.example", [443]))
    connected.serve = refuse("denied", "no")
    code = r"""
found = {}
for n in range(70):
    answer = talk(3128, f"CONNECT n{n}.wild.example:443 HTTP/1.0\r\n\r\n".encode())[9:12]
    found[answer] = found.get(answer, 0) + 1
print(json.dumps([found, ord(socks(request("late.wild.example", 443))[3]), resolve("later.wild.example")[0]]))
"""
    found, socks, dns = await talked(connected, code)
    assert set(found) == {"403", "429"}
    assert 59 <= found["403"] <= 65
    assert (socks, dns) == (2, 2)


@pytest.mark.parametrize("port", [3128, 1080])
async def test_a_proxys_port_that_code_has_taken_is_told_and_leaves_no_socket(connected: Host, port: int) -> None:
    await names(connected)
    code = f"own = socket.create_server(('127.0.0.1', {port})); print('taken', flush=True); sys.stdin.readline()"
    call = await inside(connected, code)
    await call.output(b"taken")
    asked = await connected.open("network", names=[{"host": "a.example", "ports": [443]}])
    assert await asked.refusal() == "busy"
    assert asked.failure is not None
    assert f"127.0.0.1:{port}" in asked.failure.message
    assert (
        await said(
            connected, "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 53)); print(1)"
        )
        == 1
    )
    await call.send(b"\n")
    await call.result()
