"""The whole table of spellings again, through every real door of a real sandbox: whatever a name looks like, nobody but the
servers of allowed names is looked up or connected to. What each door says is told to the test; who was reached, servers tell."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.hosts import BadHost, canonical
from dayfly.network import Rule
from dayfly.prove.internet import PUBLIC
from tests.egress.client_hello import hello
from tests.egress.vectors import (
    ADDRESSES,
    ALLOWED,
    MALFORMED,
    NOT_UNDER_WILD,
    OTHERS,
    PORTS_REFUSED,
    SAME,
    SPELT,
    UNDER_WILD,
    WILD,
)
from tests.network.world import House, World

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

RULES = (Rule(host=ALLOWED), Rule(host=ALLOWED, ports=[80], protocol="http"), Rule(host=WILD))

GOOD = (*SAME, *UNDER_WILD)
BAD = (*OTHERS, *SPELT, *NOT_UNDER_WILD, *ADDRESSES, *MALFORMED)
"""None of these is an allowed name, whatever is read into it."""

MARKS = set("/\\?#:@")
"""With one of these a URL has an allowed host and something beside it, as a client may well mean it."""

DOORS = r"""
import concurrent.futures, json, socket, struct, sys

def everything(peer):
    found = b""
    try:
        while len(found) < 65536 and (more := peer.recv(65536)): found += more
    except OSError: pass
    return found

def raw(name):
    return name.encode("utf-8", "surrogatepass")

def absolute(name, port=None):
    place = raw(name) + (b"" if port is None else b":%d" % port)
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as peer:
        peer.sendall(b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (place, place))
        return everything(peer)[9:12].decode("latin-1")

def connect(name, port=443):
    place = raw(name) + b":%d" % port
    with socket.create_connection(("127.0.0.1", 3128), timeout=20) as peer:
        peer.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (place, place))
        return peer.recv(12)[9:12].decode("latin-1")

def asked(where, port):
    with socket.create_connection(("127.0.0.1", 1080), timeout=20) as peer:
        peer.sendall(b"\5\1\0" + where + struct.pack("!H", port))
        found = b""
        while len(found) < 4 and (more := peer.recv(4 - len(found))): found += more
        return str(found[3]) if len(found) == 4 else "closed"

def socks(name, port=443):
    if len(raw(name)) > 255: return "too long for this door"
    return asked(b"\5\1\0\3" + bytes([len(raw(name))]) + raw(name), port)

def socks4(name, port=443):
    "As a literal IPv4 address, where the system reads one in it."
    try: return asked(b"\5\1\0\1" + socket.inet_aton(name), port)
    except (OSError, ValueError): return "none"

def socks6(name, port=443):
    try: return asked(b"\5\1\0\4" + socket.inet_pton(socket.AF_INET6, name.strip("[]").partition("%")[0]), port)
    except (OSError, ValueError): return "none"

def dns(name, port=443):
    "What the resolver says of exactly these bytes, and a connection there."
    labels = raw(name).removesuffix(b".").split(b".")
    if not all(0 < len(label) < 64 for label in labels): return "nothing that DNS can say"
    question = b"".join(bytes([len(label)]) + label for label in labels) + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(20)
        asking.connect(("127.0.0.1", 53))
        asking.send(bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + question)
        answer = asking.recv(4096)
    if answer[3] & 15 or not answer[7]: return "unknown"
    socket.create_connection((socket.inet_ntoa(answer[-4:]), port), timeout=20).close()
    return "connected"

def system(name, port=443):
    "The system's own resolver, and a connection to what it says, unless that is this machine itself."
    try: found = {one[4][0] for one in socket.getaddrinfo(name, port, socket.AF_INET, socket.SOCK_STREAM)}
    except (OSError, ValueError): return "unknown"
    for address in found:
        try: socket.create_connection((address, port), timeout=20).close()
        except OSError: return "unreachable"
    return "connected"

door, arguments = globals()[sys.argv[1]], json.load(open(sys.argv[2]))
def one(each):
    try: return door(*each)
    except OSError as error: return type(error).__name__
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    json.dump(list(pool.map(one, arguments)), sys.stdout)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spelling(earth: World, home: House) -> AsyncIterator[AsyncSandbox]:
    async with home.sandbox(*RULES) as made:
        await made.files.write("doors.py", DOORS)
        yield made


@pytest.fixture
def tempting(world: World) -> World:
    """Everybody's name leads somewhere: the allowed ones to one server, all others to another."""
    for name in map(_canonical, (*GOOD, *BAD, "evil.invalid")):
        if name is not None:
            allowed = name == ALLOWED or name in map(_canonical, UNDER_WILD)
            world.names.table[name] = [[PUBLIC[0] if allowed else PUBLIC[1]]]
    return world


def _canonical(name: str) -> str | None:
    try:
        return canonical(name)
    except BadHost:
        return None


ALLOWED_NAMES = {name for name in map(_canonical, GOOD) if name is not None}


async def through(sandbox: AsyncSandbox, door: str, *arguments: Any) -> list[str]:
    await sandbox.files.write("arguments", json.dumps([list(one) for one in arguments]))
    done = await sandbox.commands.run(["python3", "doors.py", door, "arguments"], timeout=100)
    assert done.ok, done.stderr
    found: list[str] = json.loads(done.text)
    assert len(found) == len(arguments)
    return found


def only_allowed_were_reached(world: World) -> None:
    assert set(world.names.asked) <= ALLOWED_NAMES
    assert world.visited() <= {(PUBLIC[0], 80), (PUBLIC[0], 443)}
    for visit in world.canaries[PUBLIC[0], 80].visits:
        hosts = [line for line in bytes(visit.said).split(b"\r\n") if line.lower().startswith(b"host:")]
        assert hosts in ([], [b"Host: allowed.example"]), visit.said


PASSED = {"absolute": "200", "connect": "200", "socks": "0", "dns": "connected", "system": "connected"}

SYSTEM = ("allowed.example\0", "allowed.example\0.evil.invalid", "allo\u200dwed.example", "allo\u200cwed.example")
"""What Python and the C library inside make the allowed name of, before they ask anybody."""


@pytest.mark.parametrize("door", ["absolute", "connect", "socks", "socks4", "socks6", "dns", "system"])
async def test_no_spelling_of_anything_else_gets_through(spelling: AsyncSandbox, tempting: World, door: str) -> None:
    found = await through(spelling, door, *((name,) for name in BAD))
    passed = {name for name, said in zip(BAD, found, strict=True) if said == PASSED.get(door, "0")}
    assert {name for name in passed if not MARKS & set(name)} <= set(SYSTEM if door == "system" else ()), passed
    only_allowed_were_reached(tempting)


@pytest.mark.parametrize("door", PASSED)
async def test_every_ascii_spelling_of_an_allowed_name_gets_through_as_that_name(
    spelling: AsyncSandbox, tempting: World, door: str
) -> None:
    """The control. Of the others a door may refuse some; none of them leads anywhere else."""
    names = [name for name in GOOD if door != "absolute" or name in SAME]
    found = await through(spelling, door, *((name,) for name in names))
    plain = [said for name, said in zip(names, found, strict=True) if name.isascii()]
    assert plain == [PASSED[door]] * len(plain), found
    assert len(plain) >= 5
    only_allowed_were_reached(tempting)
    assert ALLOWED in tempting.names.asked


@pytest.mark.parametrize("door", ["connect", "socks", "dns", "system", "absolute"])
async def test_no_other_port_gets_through(spelling: AsyncSandbox, tempting: World, door: str) -> None:
    refused = [port for port in PORTS_REFUSED if 0 < port < 65536 and port != 80]
    found = await through(spelling, door, *((ALLOWED, port) for port in refused))
    assert PASSED[door] not in found
    beyond = [port for port in PORTS_REFUSED if not 0 < port < 65536]
    if door in ("connect", "absolute"):
        assert set(await through(spelling, door, *((ALLOWED, port) for port in beyond))) == {"400"}
    only_allowed_were_reached(tempting)
    assert tempting.visited() == set()


HELLO = r"""
import json, socket, sys
found = []
for greeting in json.load(open("hellos")):
    with socket.create_connection(("allowed.example", 443), timeout=20) as peer:
        try:
            peer.sendall(bytes.fromhex(greeting))
            found.append(peer.recv(1).hex())
        except OSError as error: found.append(type(error).__name__)
json.dump(found, sys.stdout)
"""


async def test_no_other_spelling_in_a_handshake_gets_through(spelling: AsyncSandbox, tempting: World) -> None:
    """Raw TLS: to the allowed name, with every other one in the ClientHello. A server answers a handshake with record 22, or
    with an alert, 21."""
    names = [name.encode("utf-8", "surrogatepass") for name in BAD]
    names = [name for name in names if 0 < len(name) < 16_000]
    await spelling.files.write("hellos", json.dumps([hello(name).records().hex() for name in names]))
    done = await spelling.commands.run(["python3", "-c", HELLO], timeout=100)
    assert done.ok, done.stderr
    assert not {"16", "15"} & set(json.loads(done.text)), done.text
    assert {one.code for one in done.denied} <= {"sni_mismatch", "not_tls"}
    assert not any(visit.said for visit in tempting.canaries[PUBLIC[0], 443].visits)
    only_allowed_were_reached(tempting)


async def test_an_allowed_name_in_a_handshake_gets_through(spelling: AsyncSandbox, tempting: World) -> None:
    names = [name.encode() for name in SAME if name.isascii() and not name.endswith(".")]
    await spelling.files.write("hellos", json.dumps([hello(name).records().hex() for name in names]))
    done = await spelling.commands.run(["python3", "-c", HELLO], timeout=60)
    answers = json.loads(done.text)
    assert len(answers) == len(names) >= 3
    assert set(answers) <= {"16", "15"}, done
    assert done.denied == ()
    only_allowed_were_reached(tempting)
