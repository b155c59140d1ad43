"""Learn mode: code asks for whatever it likes, nothing of it leaves, and what it asked for is known. Each escape has a control,
which succeeds where rules allow it."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox, Outcome
from dayfly.cli.egress import KINDS, Sums, asked
from dayfly.journal import Journal, Reader
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Rule, suggestion
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC
from dayfly.spec import Denial
from dayfly.wire.messages import Event, Fail
from dayfly.wire.operations import STDIN
from tests.manager.house import SIGNER
from tests.network.test_escapes import ATTEMPTS, Cells, word
from tests.network.test_lives import LISTENERS, cell, opened, tenants_over
from tests.network.world import EVIL, TCP, House, World, in_kernel, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def learner(earth: World, home: House) -> AsyncIterator[AsyncSandbox]:
    async with AsyncSandbox(Policy(image="data", network="learn"), opener=home.manager) as made:
        await made.files.write("ca.pem", earth.certificate.read_bytes())
        yield made


def untouched(world: World) -> None:
    assert world.names.asked == [], "nobody was asked for a name"
    assert world.visited() == set(), "nobody was connected to"


def seen(denied: tuple[Denial, ...]) -> set[tuple[str, int | None, str, str | None]]:
    """What the gateway saw."""
    return {(one.host, one.port, one.code, one.began) for one in denied if not one.claimed}


BEGINNINGS = {
    "tls": ("curl -sS https://api.example.com/x", "api.example.com", 443, "tls"),
    "tls elsewhere": ("curl -sS https://api.example.com:8443/x", "api.example.com", 8443, "tls"),
    "http": ("curl -sS -f http://web.example.com/x", "web.example.com", 80, "http"),
    "http elsewhere": ("curl -sS -f http://web.example.com:8080/x", "web.example.com", 8080, "http"),
    "git": ("git ls-remote http://web.example.com/repo.git", "web.example.com", 80, "http"),
    "connect": ("curl -sS -x http://127.0.0.1:3128 https://api.example.com/x", "api.example.com", 443, None),
    "absolute form": ("curl -sS -f -x http://127.0.0.1:3128 http://web.example.com:7777/x", "web.example.com", 7777, "http"),
    "socks": ("curl -sS -x socks5h://127.0.0.1:1080 https://api.example.com:9/x", "api.example.com", 9, None),
    "postgres": (
        "python3 -c \"import socket; p = socket.create_connection(('db.example.com', 5432)); "
        "p.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47])); p.recv(1)\"",
        "db.example.com", 5432, "postgres",
    ),
    "a server that speaks first": (
        "python3 -c \"import socket; socket.create_connection(('mail.example.com', 25)).recv(1)\"",
        "mail.example.com", 25, None,
    ),
    "anything": (
        "python3 -c \"import socket; p = socket.create_connection(('cache.example.com', 6379)); "
        "p.sendall(b'*1\\r\\n\\$4\\r\\nPING\\r\\n' * 2); p.recv(1)\"",
        "cache.example.com", 6379, "other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BEGINNINGS)
async def test_what_was_asked_for_is_known_and_denied(learner: AsyncSandbox, world: World, what: str) -> None:
    command, host, port, began = BEGINNINGS[what]
    done = await learner.commands.run(command, timeout=30)
    assert not done.ok, done
    assert seen(done.denied) == {(host, port, "not_listed", began)}, done
    untouched(world)


async def test_http_hears_why_and_all_else_is_reset(learner: AsyncSandbox, world: World) -> None:
    heard = await learner.commands.run("curl -sS -i http://web.example.com/x", timeout=30)
    assert heard.text.startswith("HTTP/1.1 403 Forbidden"), heard
    assert "network = 'learn'" in heard.text
    reset = await python(
        learner,
        "peer = connect('raw.example.com', 22)\ntry: print(peer.recv(1))\nexcept OSError as e: print(type(e).__name__)",
    )
    assert reset.text == "ConnectionResetError\n", reset


@pytest.mark.parametrize(
    "name", [name for name, one in ATTEMPTS.items() if name not in ("a raw socket", "a packet socket")]
)
async def test_what_gets_out_by_rules_gets_nowhere(learner: AsyncSandbox, world: World, name: str) -> None:
    """Also what is allowed elsewhere: the same code and arguments succeed in test_escapes, which is the control."""
    attempt = ATTEMPTS[name]
    places = [*attempt.tried[:1], *attempt.allowed[:1]] if "127.0.0.1" not in attempt.allowed else attempt.tried[:1]
    for place in places:
        done = await in_kernel(learner, attempt.code, place, *attempt.tried[1:])
        assert "query" in attempt.code or done.outcome is Outcome.ERROR, (name, place, done)
    untouched(world)


async def test_the_same_code_reaches_it_by_a_rule(learner: AsyncSandbox, world: World, shared: AsyncSandbox) -> None:
    """The control of all above."""
    code = f"assert echoed(connect('raw.example.com', {TCP}))"
    assert (await in_kernel(shared, code)).ok
    assert set(world.names.asked) == {"raw.example.com"}
    assert world.visited() == {(PUBLIC[0], TCP)}


async def test_names_without_a_connection_are_claimed_and_no_address_is_given_twice(
    learner: AsyncSandbox, world: World
) -> None:
    done = await python(
        learner,
        "found = [socket.gethostbyname(f'n{n}.example.org') for n in range(20)]\n"
        "print(len(set(found)), all(one.startswith('127.64.') for one in found))",
    )
    assert done.text == "20 True\n", done
    claims = {one.host for one in done.denied if one.claimed and one.port is None}
    assert claims == {f"n{n}.example.org" for n in range(20)}
    untouched(world)


async def test_new_names_are_as_few_as_under_a_star_and_go_nowhere(world: World, home: House) -> None:
    life = await home.manager.open(Policy(image="tiny", network="learn"))
    done = await cell(
        life,
        "def look(n):\n"
        "    try: return socket.gethostbyname(f'n{n}.{\"x\" * 60}.example.org')[:6]\n"
        "    except OSError as error: return error.errno\n"
        "found = list(map(look, range(70)))\n"
        "print(59 <= found.count('127.64') <= 65, found[-1] == socket.EAI_AGAIN)",
    )
    assert done.stdout == "True True\n", done
    untouched(world)
    await life.close()


async def test_more_names_than_there_is_room_for_listeners(world: World, home: House) -> None:
    """The latest are listened for."""
    life = await home.manager.open(Policy(image="tiny", network="learn"))
    done = await cell(
        life,
        "for n in range(55): last = socket.gethostbyname(f'n{n}.example.org')\n"
        "peer = connect(last, 443); peer.sendall(b'\\x16\\x03\\x01' + bytes(50))\n"
        "try: print(peer.recv(1))\n"
        "except OSError as error: print(type(error).__name__)\n" + LISTENERS,
    )
    error, listeners = done.stdout.split()
    assert error == "ConnectionResetError"
    assert int(listeners) <= 1024 + 5
    assert ("n54.example.org", 443, "not_listed", "tls") in seen(done.denied)
    untouched(world)
    await life.close()


async def test_a_live_sandbox_learns_and_goes_back(world: World, home: House) -> None:
    life = await opened(home)
    assert (await cell(life, LISTENERS)).stdout == "0\n"
    await home.manager.set_network(life.id, "learn")
    assert life.policy.network == "learn"
    tried = await cell(life, f"connect('{EVIL}', 443).sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')")
    await cell(life, "1")
    assert (EVIL, 443, "not_listed", "http") in seen(life._inside.denials.since(0)), tried
    (copy,) = await home.manager.fork(life.id)
    assert copy.policy.network == "learn"
    again = await cell(
        copy, f"peer = connect('{EVIL}', 80); peer.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print(peer.recv(12))"
    )
    assert again.stdout == "b'HTTP/1.1 403'\n", again
    await home.manager.pause(life.id)
    back = await home.manager.resume(life.id)
    assert back.policy.network == "learn"
    assert (await cell(back, f"peer = connect('{EVIL}', 80); print(peer.recv(12))")).stdout == "b'HTTP/1.1 403'\n"
    await home.manager.set_network(back.id, "none")
    assert (await cell(back, LISTENERS)).stdout == "0\n"
    untouched(world)
    await asyncio.gather(back.close(), copy.close())


async def test_what_is_suggested_from_the_journal_allows_what_was_denied(world: World, tmp_path: Path) -> None:
    """From learning to rules, and the same code works."""
    code = (
        "import urllib.request as u\n"
        "try: print(u.urlopen('http://web.example.com/page').read())\n"
        "except OSError as error: print(error)\n"
    )
    journal = Journal(tmp_path / "journal.db", SIGNER)
    async with world.house() as house:
        tenants = tenants_over(house, journal)
        mine = await tenants.create("anna", Policy(image="tiny", network="learn"))
        assert isinstance(mine.life, RecordedLife)
        assert "403" in (await cell(mine.life, code)).stdout
        await tenants.close()
    journal.close()
    untouched(world)
    text = "\n".join(suggestion(asked(Sums(Reader(tmp_path / "journal.db").entries(mine.id, kinds=KINDS)))))
    policy = Policy.model_validate({"image": "tiny", **tomllib.loads(text)})
    assert policy.network == (Rule(host="web.example.com", ports=(80,), protocol="http"),), text
    async with world.house() as house:
        life = await house.manager.open(policy)
        assert (await cell(life, code)).stdout == "b'web.example.com /page'\n", text
    assert world.visited() == {(PUBLIC[0], 80)}


async def test_a_hostile_agent_reaches_nobody_by_learning(world: World, home: House) -> None:
    """The gateway knows no rule of it, whatever an agent asks for and says."""
    cells = Cells(world, home)
    life = await cells.manager.open(Policy(network="learn"))
    agent = cells.boundary.cells[life.id].agent
    places = [("raw.example.com", TCP), ("web.example.com", 80), (EVIL, 443), (PUBLIC[0], TCP), ("raw.example.com", 0), ("", -1),
              ("x" * 60_000, TCP), ("a\0b", 1 << 60), (f"{'secret' * 9}.{EVIL}", 443)]  # fmt: skip
    for host, port in places:
        asked = await agent.open("tunnel", host=host, port=port)
        await asked.data(STDIN, b"\x16\x03\x01" + bytes(50_000))
        said = await word(asked)
        assert isinstance(said, Fail), (host, port)
        assert said.code == "denied", (host, port)
        assert said.message.isprintable()
    denied = life._inside.denials.since(0)
    assert sum(one.count for one in denied) == len(places)
    assert all(one.host.isprintable() for one in denied)
    untouched(world)
    control = await cells.manager.open(Policy(network=(Rule(host="raw.example.com", ports=[TCP], protocol="tcp"),)))
    assert isinstance(
        await word(await cells.boundary.cells[control.id].agent.open("tunnel", host="raw.example.com", port=TCP)), Event
    )
    await cells.manager.close()
