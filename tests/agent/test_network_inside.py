"""Names and tunnels, as code inside finds them and the host serves them: over a process and over real gVisor."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.host import Call, Host, Taken

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

PRELUDE = """
import json, os, socket, struct, sys, time

def query(name, kind=1):
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + bytes(1)
    return struct.pack("!HHHHHH", 7, 256, 1, 0, 0, 0) + question + struct.pack("!HH", kind, 1)

def resolve(name, kind=1):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.connect(("127.0.0.1", 53))
        for left in (3, 2, 1, 0):  # as resolvers do: a packet may be lost where a queue is full
            asking.send(query(name, kind))
            try:
                answer = asking.recv(4096)
                break
            except TimeoutError:
                if not left: raise
    return answer[3] & 15, answer[7] and socket.inet_ntoa(answer[-4:])

def connect(name, port):
    return socket.create_connection((resolve(name)[1], port), timeout=20)

def everything(peer):
    data = b""
    while chunk := peer.recv(65536):
        data += chunk
    return data

def failure(host, port):
    try:
        return everything(connect(host, port)).decode() or "end"
    except OSError as error:  # already from connect, if the answer was faster
        return type(error).__name__
"""

SOCKETS = "print(sum(line.split()[3] == '0A' or name == 'udp' for name in ('tcp', 'udp') for line in list(open('/proc/net/' + name))[1:]))"


async def names(host: Host, *listed: tuple[str, list[int]]) -> None:
    await host.ask("network", names=[{"host": name, "ports": ports} for name, ports in listed])


async def inside(host: Host, code: str) -> Call:
    return await host.python(PRELUDE + code, stdin=True)


async def said(host: Host, code: str) -> Any:
    """What the code prints, which is JSON."""
    call = await inside(host, code)
    value = await call.result()
    assert value["exit_code"] == 0, call.stderr.decode()
    return json.loads(call.stdout)


def echo(taken: Taken) -> None:
    """A destination that says everything back, with "<name>:<port> " first, and ends when the client does."""

    def react(taken: Taken) -> None:
        data = taken.streams.pop(0, b"")
        if data and not taken.done:
            taken.answer(bytes(data))
        if (0 in taken.ended or taken.cancelled) and not taken.done:
            taken.finish()

    if taken.op == "tunnel":
        taken.connected()
        taken.answer(f"{taken.place[0]}:{taken.place[1]} ".encode())
        taken.react = react
    else:
        taken.finish()


def in_gvisor(host: Host) -> bool:
    return host.welcome is not None and host.welcome.facts["pid"] == 1


def refuse(code: str, text: str) -> Callable[[Taken], None]:
    return lambda taken: taken.fail(code, text) if taken.op == "tunnel" else taken.finish()


@pytest.fixture(autouse=True)
def _clean(connected: Host) -> None:
    connected.taken.clear()
    connected.serve = echo


async def test_without_names_there_is_no_socket_at_all(connected: Host) -> None:
    before = await said(connected, SOCKETS)
    assert before == 0
    await names(connected, ("a.example", [443]))
    assert await said(connected, SOCKETS) >= 2
    await said(connected, "print(json.dumps(resolve('a.example')))")
    await names(connected)
    assert await said(connected, SOCKETS) == 0


async def test_a_connection_to_a_name_reaches_the_host_by_name(connected: Host) -> None:
    await names(connected, ("one.example", [443, 5432]), ("two.example", [443]))
    code = """
found = []
for name, port in (("one.example", 443), ("two.example", 443), ("one.example", 5432)):
    peer = connect(name, port)
    peer.sendall(b"hello")
    peer.shutdown(socket.SHUT_WR)
    found.append(everything(peer).decode())
print(json.dumps(found))
"""
    assert await said(connected, code) == ["one.example:443 hello", "two.example:443 hello", "one.example:5432 hello"]


async def test_a_wildcard_gives_every_name_an_address_of_its_own(connected: Host) -> None:
    await names(connected, ("*.wild.example", [443]))
    code = """
found = []
for name in ("a.wild.example", "b.wild.example"):
    peer = connect(name, 443)
    peer.shutdown(socket.SHUT_WR)
    found.append(everything(peer).decode())
print(json.dumps([found, resolve("a.wild.example")[1] != resolve("b.wild.example")[1], resolve("wild.example")]))
"""
    found, apart, apex = await said(connected, code)
    assert found == ["a.wild.example:443 ", "b.wild.example:443 "]
    assert apart
    assert apex == [3, 0]


async def test_other_names_are_refused_and_told_once_with_their_count(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = "print(json.dumps([resolve('evil.example') for _ in range(3)] + [resolve('evil.example', 28)]))"
    assert await said(connected, code) == [[3, 0]] * 4
    report = await connected.accepted(op="names.refused")
    told = {one["host"]: one["count"] for taken in connected.taken for one in taken.params["names"]}
    assert told == {"evil.example": 3}, report


async def test_what_was_refused_is_told_before_the_command_ends(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    for number in range(3):  # within one second
        await said(connected, f"print(json.dumps(resolve('n{number}.evil.example')))")
        assert f"n{number}.evil.example" in {one["host"] for taken in connected.taken for one in taken.params["names"]}


async def test_a_flood_of_refused_names_is_told_in_part(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    await said(connected, "print(json.dumps([resolve(f'n{n}.flood.example') for n in range(1000)][0]))")
    assert all(len(taken.params["names"]) <= 100 for taken in connected.taken)
    assert len(connected.taken) <= 8


async def test_dns_over_tcp_answers_one_question_after_the_other(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = """
peer = socket.create_connection(("127.0.0.1", 53), timeout=20)
asked = b"".join(len(one).to_bytes(2, "big") + one for one in (query("a.example"), query("b.example")))
for byte in asked:
    peer.send(bytes([byte]))
reading = peer.makefile("rb")
found = []
for _ in range(2):
    found.append(reading.read(int.from_bytes(reading.read(2), "big"))[3] & 15)
peer.send(b"\\xff\\xff")
print(json.dumps([*found, everything(peer).decode()]))
"""
    assert await said(connected, code) == [0, 3, ""]


async def test_hostile_packets_and_crowds_do_not_stop_the_resolver(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = """
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in range(0, 3000, 7):
    asking.sendto(os.urandom(size), ("127.0.0.1", 53))
crowd = [socket.create_connection(("127.0.0.1", 53), timeout=20) for _ in range(40)]
print(json.dumps(resolve("a.example")[0]))
"""
    assert await said(connected, code) == 0


async def test_a_name_that_is_taken_away_resolves_and_listens_no_more_and_comes_back(connected: Host) -> None:
    await names(connected, ("a.example", [443]), ("b.example", [443]))
    code = """
address = resolve("b.example")[1]
print("ready", flush=True)
sys.stdin.readline()
try:
    socket.create_connection((address, 443), timeout=20)
except OSError as error:
    print(type(error).__name__)
print(resolve("b.example")[0], flush=True)
sys.stdin.readline()
peer = socket.create_connection((address, 443), timeout=20)
print(resolve("b.example") == (0, address))
"""
    call = await inside(connected, code)
    await call.output(b"ready\n")
    await names(connected, ("a.example", [443]))
    await call.send(b"\n")
    await call.output(b"3\n")
    await names(connected, ("b.example", [443]))
    await call.send(b"\n")
    assert (await call.result())["exit_code"] == 0, call.stderr
    assert call.stdout == b"ready\nConnectionRefusedError\n3\nTrue\n"


async def test_a_denied_connection_is_reset(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    connected.serve = refuse("denied", "not on the list")
    assert await said(connected, "print(json.dumps(failure('a.example', 443)))") == "ConnectionResetError"


@pytest.mark.parametrize(("code", "status"), [("denied", "403 Forbidden"), ("unreachable", "502 Bad Gateway")])
@pytest.mark.parametrize("port", [80, 8080])
async def test_whoever_speaks_http_is_told_why(connected: Host, port: int, code: str, status: str) -> None:
    await names(connected, ("a.example", [port]))
    connected.serve = lambda taken: None
    asked = """
peer = connect("a.example", %d)
peer.sendall(b"POST / HTTP/1.1\\r\\nHost: a.example\\r\\nContent-Length: 300000\\r\\n\\r\\n")
print("asked", flush=True)
sys.stdin.readline()
peer.sendall(bytes(300000))
print(json.dumps(everything(peer).decode()))
"""
    call = await inside(connected, asked % port)
    taken = await connected.accepted()
    await call.output(b"asked\n")
    taken.fail(code, "a.example: not allowed\r\nSet-Cookie: x; see \x1b[1mrule")
    await call.send(b"\n")
    await call.result()
    answer = json.loads(call.stdout.splitlines()[-1])
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n")
    assert "Server: dayfly" in head
    assert "Set-Cookie" not in head
    assert body.startswith("a.example: not allowed")
    assert f"Content-Length: {len(body)}" in head


CUT = """
peer = connect("a.example", 443)
peer.send(b"x")
try:
    everything(peer)
except OSError as error:
    print(type(error).__name__)
"""


async def test_a_stream_that_the_host_cuts_ends_with_a_reset(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    call = await inside(connected, CUT)
    taken = await connected.accepted()
    await connected.until(lambda: bool(taken.received))
    taken.fail("denied", "the server name is another one")
    await connected.flush()
    await call.result()
    assert call.stdout == b"ConnectionResetError\n"


async def test_each_direction_ends_by_itself(connected: Host) -> None:
    await names(connected, ("a.example", [443]))

    def serve(taken: Taken) -> None:
        taken.connected()

    connected.serve = serve
    code = """
peer = connect("a.example", 443)
print(everything(peer).decode(), flush=True)
peer.sendall(b"and this after your end")
peer.close()
"""
    call = await inside(connected, code)
    taken = await connected.accepted()
    taken.answer(b"all of it")
    await taken.eof(1)
    await call.output(b"all of it\n")
    await connected.until(lambda: 0 in taken.ended)
    assert taken.stdin == b"and this after your end"
    taken.finish()
    await connected.flush()
    await call.result()


async def test_a_client_that_goes_away_is_told_to_the_host(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    connected.serve = lambda taken: taken.connected()
    code = """
peer = connect("a.example", 443)
peer.send(b"x")
sys.stdin.readline()
peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
peer.close()
"""
    call = await inside(connected, code)
    taken = await connected.accepted()
    await connected.until(lambda: bool(taken.received))
    await call.send(b"\n")
    await connected.until(lambda: taken.cancelled)
    taken.fail("cancelled", "")
    await call.result()


async def test_megabytes_pass_both_ways_unchanged_and_a_stopped_reader_holds_up_nobody(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = """
import hashlib, threading
stuck = connect("a.example", 443)
stuck.setblocking(False)
try:
    while True: stuck.send(bytes(1 << 20))
except BlockingIOError:
    pass
peer = connect("a.example", 443)
sent, got = hashlib.sha256(), hashlib.sha256(b"a.example:443 ")
def send():
    for number in range(24):
        piece = bytes([number]) * (1 << 18)
        sent.update(piece)
        peer.sendall(piece)
    peer.shutdown(socket.SHUT_WR)
thread = threading.Thread(target=send)
thread.start()
data = everything(peer)
thread.join()
print(json.dumps([len(data), hashlib.sha256(data[14:]).hexdigest() == sent.hexdigest()]))
"""
    first: list[Taken] = []

    def serve(taken: Taken) -> None:
        if not first:
            first.append(taken)
            taken.reading = False
            taken.connected()
        else:
            taken.keep = False
            taken.connected()
            taken.answer(b"a.example:443 ")

    connected.serve = serve
    call = await inside(connected, code)
    taken = await connected.accepted(lambda taken: taken is not connected.taken[0])
    taken.keep = True
    while 0 not in taken.ended:
        await connected.turn()
        data = taken.streams.pop(0, None)
        if data:
            await taken.send(bytes(data), 1)
    rest = taken.streams.pop(0, None)
    if rest:
        await taken.send(bytes(rest), 1)
    taken.finish()
    await connected.flush()
    await call.result()
    assert json.loads(call.stdout) == [14 + (24 << 18), True], call.stderr
    assert first[0].received <= 2 << 20
    first[0].keep = False
    await first[0].read_on()
    await connected.until(lambda: first[0].cancelled or 0 in first[0].ended)
    first[0].fail("cancelled", "")
    await connected.flush()


async def test_more_connections_than_channels_are_all_served(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = """
peers = [connect("a.example", 443) for _ in range(150)]
for peer in peers:
    peer.shutdown(socket.SHUT_WR)
print(json.dumps(sum(everything(peer) == b"a.example:443 " for peer in peers)))
"""
    assert await said(connected, code) == 150


async def test_a_crowd_beyond_that_is_reset_and_leaves_nothing_behind(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    connected.serve = lambda taken: None if taken.op == "tunnel" else taken.finish()
    code = """
peers = []
try:
    for _ in range(300):
        peers.append(connect("a.example", 443))
    everything(peers[-1])
except OSError as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
"""
    call = await inside(connected, code)
    await call.output(b"ConnectionResetError\n")
    connected.serve = echo
    for taken in connected.taken:
        taken.fail("denied", "too many")
    await call.send(b"\n")
    await call.result()
    assert await said(
        connected, "p = connect('a.example', 443); p.shutdown(1); print(json.dumps(everything(p).decode()))"
    )


async def test_the_codes_own_servers_keep_their_ports(connected: Host) -> None:
    await names(connected, ("a.example", [8443]))
    code = """
own = socket.create_server(("127.0.0.1", 8443))
peer = connect("a.example", 8443)
peer.shutdown(socket.SHUT_WR)
found = [everything(peer).decode()]
mine = socket.create_connection(("127.0.0.1", 8443))
found.append(own.accept()[0] is not None)
print(json.dumps(found))
"""
    assert await said(connected, code) == ["a.example:8443 ", True]


@pytest.mark.parametrize("first", ["code", "name"])
async def test_in_gvisor_a_server_on_all_addresses_and_a_name_share_a_port(connected: Host, first: str) -> None:
    """If the server sets SO_REUSEADDR, as most do. On Linux itself they cannot."""
    if not in_gvisor(connected):
        return
    port = {"code": 9001, "name": 9002}[first]
    await names(connected, ("a.example", [port]))
    code = f"""
if {first!r} == "name": resolve("a.example")
own = socket.create_server(("0.0.0.0", {port}))
peer = connect("a.example", {port})
peer.shutdown(socket.SHUT_WR)
found = [everything(peer).decode()]
mine = socket.create_connection(("127.0.0.1", {port}))
found.append(own.accept()[0] is not None)
print(json.dumps(found))
"""
    assert await said(connected, code) == [f"a.example:{port} ", True]


async def test_a_port_that_code_has_taken_everywhere_makes_the_name_fail_and_not_lead_to_the_code(
    connected: Host,
) -> None:
    await names(connected, ("taken.example", [9443]))
    code = """
own = socket.socket()  # without SO_REUSEADDR
own.bind(("0.0.0.0", 9443))
own.listen()
found = [resolve("taken.example")]
own.close()
found.append(resolve("taken.example")[0])
print(json.dumps(found))
"""
    assert await said(connected, code) == [[2, 0], 0]


async def test_a_resolvers_port_that_code_has_taken_is_told_and_changes_nothing(connected: Host) -> None:
    await names(connected)
    code = """
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 53))
print("taken", flush=True)
sys.stdin.readline()
"""
    call = await inside(connected, code)
    await call.output(b"taken")
    asked = await connected.open("network", names=[{"host": "a.example", "ports": [443]}])
    assert await asked.refusal() == "busy"
    assert asked.failure is not None
    assert "127.0.0.1:53" in asked.failure.message
    await call.send(b"\n")
    await call.result()
    await names(connected, ("a.example", [443]))


async def test_names_that_are_none_are_a_bad_request(connected: Host) -> None:
    asked = await connected.open("network", names=[{"host": "UPPER", "ports": [443]}])
    assert await asked.refusal() == "bad_request"


async def test_while_the_stream_is_drained_connections_wait(connected: Host) -> None:
    await names(connected, ("a.example", [443]))
    code = """
address = resolve("a.example")[1]
print("ready", flush=True)
sys.stdin.readline()
time.sleep(0.1)
peer = socket.create_connection((address, 443), timeout=20)
peer.shutdown(socket.SHUT_WR)
print(everything(peer).decode())
"""
    call = await inside(connected, code)
    await call.output(b"ready\n")
    await call.send(b"\n")
    await connected.ask("usage")
    await connected.quiesce()
    assert connected.taken == []
    await connected.resume()
    await call.result()
    assert call.stdout == b"ready\na.example:443 \n"


HOSTS = """
def listed():
    with open("/etc/hosts") as file:
        return [line.split() for line in file if line.startswith("127.64.")]

def known(name):
    try:
        return socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except OSError:
        return None
"""


async def test_a_name_that_was_asked_for_stands_in_the_sandboxs_hosts_file_while_it_exists(connected: Host) -> None:
    """And in nobody else's: outside of a sandbox that file is the machine's."""
    await names(connected, ("one.example", [443]), ("two.example", [443]), ("*.wild.example", [443]))
    asking = HOSTS + "[resolve(name) for name in ('two.example', 'x.wild.example', 'other.example', 'two.example')]\n"
    found = await said(connected, asking + "print(json.dumps([listed(), resolve('two.example')[1]]))")
    address = found[1]
    if not in_gvisor(connected):
        assert found[0] == []
        return
    assert [host for _, host in found[0]] == ["two.example", "x.wild.example"]
    assert found[0][0][0] == address
    assert await said(connected, HOSTS + "print(json.dumps(known('two.example')))") == address
    await names(connected, ("one.example", [443]))
    assert await said(connected, HOSTS + "print(json.dumps([listed(), known('two.example')]))") == [[], None]
    await names(connected, ("two.example", [443]))
    code = HOSTS + "print(json.dumps([listed(), resolve('two.example')[1], listed()]))"
    assert await said(connected, code) == [[], address, [[address, "two.example"]]]
    await names(connected)
    assert await said(connected, HOSTS + "print(json.dumps(listed()))") == []
