"""Clients of more than HTTP/1, as they are and without a proxy variable: HTTP/2, WebSocket, PostgreSQL, pip."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio
from websockets.asyncio.server import serve

from dayfly import AsyncSandbox
from dayfly.network import Rule
from dayfly.prove.internet import PUBLIC
from tests.egress.vectors import ADDRESSES, OTHERS
from tests.machine import image
from tests.network.services import Http2, Postgres, say_back, tls_of
from tests.network.world import EVIL, House, World, python
from tests.packages.index import Index

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

WS, INDEX, WSS, H2, PG = 8081, 8082, 8444, 8445, 5432

RULES = (
    Rule(host="web.example.com", ports=[80, WS, INDEX], protocol="http"),
    Rule(host="api.example.com", ports=[443, WSS, H2]),
    Rule(host="api.example.com", ports=[PG], protocol="postgres"),
)


@dataclass
class Servers:
    http2: Http2
    postgres: Postgres


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def servers(earth: World) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as open_now:

        def on(port: int, address: str = PUBLIC[0]):  # type: ignore[no-untyped-def]
            return earth.internet.bind("far", "tcp", address, port)

        index = Index(form="html")
        index.add("penguin", "1.0")
        open_now.enter_context(index.running(on(INDEX)))
        made = Servers(Http2(), Postgres(tls_of(earth.certificate)))
        await open_now.enter_async_context(serve(say_back, sock=on(WS)))
        await open_now.enter_async_context(serve(say_back, sock=on(WSS), ssl=tls_of(earth.certificate)))
        for answer, port, tls in (
            (made.http2.serve, H2, tls_of(earth.certificate, "h2")),
            (made.postgres.serve, PG, None),
        ):
            await open_now.enter_async_context(await asyncio.start_server(answer, sock=on(port), ssl=tls))
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clients(home: House) -> AsyncIterator[AsyncSandbox]:
    image("clients")
    async with home.believing(*RULES, image="clients") as made:
        yield made


TLS = "import ssl\ncontext = ssl.create_default_context(cafile='ca.pem')\n"

TALKS = {
    "aiohttp": (
        "import aiohttp, asyncio\n"
        "async def main():\n"
        "    async with aiohttp.ClientSession() as session:\n"
        "        async with session.get('http://web.example.com/page') as answer: print(await answer.text())\n"
        "        async with session.get('https://api.example.com/page', ssl=context) as answer: print(await answer.text())\n"
        "asyncio.run(main())\n",
        ["web.example.com /page", "api.example.com /page"],
    ),
    "aiohttp websocket": (
        "import aiohttp, asyncio\n"
        "async def main():\n"
        "    async with aiohttp.ClientSession() as session:\n"
        f"        for url in 'ws://web.example.com:{WS}/', 'wss://api.example.com:{WSS}/':\n"
        "            async with session.ws_connect(url, ssl=context) as peer:\n"
        "                print(await peer.receive_str()); await peer.send_bytes(bytes(100_000)); print(len(await peer.receive_bytes()))\n"
        "asyncio.run(main())\n",
        [f"web.example.com:{WS}", "100000", f"api.example.com:{WSS}", "100000"],
    ),
    "websockets": (
        "from websockets.sync.client import connect as websocket\n"
        f"for url, more in (('ws://web.example.com:{WS}/', {{}}), ('wss://api.example.com:{WSS}/', dict(ssl=context))):\n"
        "    with websocket(url, **more) as peer:\n"
        "        print(peer.recv()); peer.send('x' * 70_000); print(len(peer.recv()))\n",
        [f"web.example.com:{WS}", "70000", f"api.example.com:{WSS}", "70000"],
    ),
    "httpx over HTTP/2": (
        "import httpx\n"
        "with httpx.Client(http2=True, verify=context) as client:\n"
        f"    answers = [client.get('https://api.example.com:{H2}/{{}}'.format(n)) for n in range(3)]\n"
        "    print(answers[-1].http_version, answers[-1].text)\n",
        [f"HTTP/2 api.example.com:{H2} /2 over HTTP/2"],
    ),
    "psycopg": (
        "import psycopg\n"
        "with psycopg.connect('host=api.example.com user=me dbname=mine sslmode=verify-full sslrootcert=ca.pem', autocommit=True) as peer:\n"
        "    print(peer.execute('select 1').fetchone()[0], peer.execute('select %s', ['x']).fetchone()[0], peer.pgconn.ssl_in_use)\n",
        ["yes yes True"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("client", TALKS)
async def test_a_client_speaks_as_it_is(clients: AsyncSandbox, servers: Servers, world: World, client: str) -> None:
    code, expected = TALKS[client]
    done = await python(clients, TLS + code)
    assert done.text.splitlines() == expected, done
    assert done.denied == ()


async def test_curl_speaks_http2(clients: AsyncSandbox, servers: Servers, world: World) -> None:
    done = await clients.commands.run(
        f"curl -sS --http2 --cacert ca.pem -w ' %{{http_version}}' https://api.example.com:{H2}/c", timeout=30
    )
    assert done.text == f"api.example.com:{H2} /c over HTTP/2 2", done


async def test_pip_installs_from_an_index_by_name(clients: AsyncSandbox, servers: Servers, world: World) -> None:
    install = (
        f"pip install --no-cache-dir --disable-pip-version-check -q --target here --index-url http://web.example.com:{INDEX}/simple "
        "--trusted-host web.example.com"
    )
    done = await clients.commands.run(
        f"{install} penguin && PYTHONPATH=here python3 -c 'import penguin; print(penguin.VERSION)'", timeout=60
    )
    assert done.text.strip() == "1.0", done
    missing = await clients.commands.run(f"{install} walrus", timeout=60)
    assert not missing.ok
    assert missing.denied == ()


async def test_psycopg_gets_no_further_without_tls_or_to_another(
    clients: AsyncSandbox, servers: Servers, world: World
) -> None:
    before = len(servers.postgres.started)
    for more, code in (
        ("host=api.example.com sslmode=disable", "not_tls"),
        (f"host={EVIL} sslmode=require", "not_listed"),
    ):
        done = await python(clients, f"import psycopg\npsycopg.connect('{more} user=me dbname=mine')")
        assert not done.ok, done
        assert {one.code for one in done.denied} == {code}, done
    assert len(servers.postgres.started) == before


AUTHORITIES = r"""
import h2.connection, h2.config, h2.events, json
context.set_alpn_protocols(["h2"])
config = h2.config.H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
with context.wrap_socket(connect("api.example.com", int(sys.argv[1])), server_hostname="api.example.com") as peer:
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    wanted = json.load(open("authorities"))
    for number, name in enumerate(wanted):
        connection.send_headers(1 + 2 * number, [(":method", "GET"), (":scheme", "https"), (":authority", name), (":path", "/")], end_stream=True)
    answered = 0
    while answered < len(wanted):
        peer.sendall(connection.data_to_send())
        data = peer.recv(65536)
        if not data: break
        answered += sum(isinstance(one, h2.events.StreamEnded) for one in connection.receive_data(data))
print(answered)
"""


async def test_an_http2_authority_says_nothing_about_where_it_goes(
    clients: AsyncSandbox, servers: Servers, world: World
) -> None:
    """Where TLS passes, its name is what counts: inside of it any other may be said, to that same server. The documentation says
    so (domain fronting), and a rule with methods or paths looks inside."""
    world.names.table |= {name: [[PUBLIC[1]]] for name in (*OTHERS, EVIL) if name.isascii()}
    said = [name for name in (EVIL, "api.example.com", *OTHERS, *ADDRESSES) if name.isascii()]
    await clients.files.write("authorities", json.dumps(said))
    servers.http2.authorities.clear()
    done = await python(clients, TLS + AUTHORITIES, str(H2))
    assert done.text == f"{len(said)}\n", done
    assert servers.http2.authorities == [name.encode() for name in said]
    assert set(world.names.asked) == {"api.example.com"}
    assert world.visited() == set(), "no other server has heard of it"


@pytest.mark.parametrize("name", [EVIL, ""])
async def test_an_http2_client_is_held_to_the_name_in_its_handshake(
    clients: AsyncSandbox, servers: Servers, world: World, name: str
) -> None:
    servers.http2.authorities.clear()
    await clients.files.write("authorities", json.dumps(["api.example.com"]))
    code = AUTHORITIES.replace('server_hostname="api.example.com"', f"server_hostname={name or None!r}")
    done = await python(clients, TLS + "context.check_hostname = False\n" + code, str(H2))
    assert not done.ok
    assert {one.code for one in done.denied} == {"sni_mismatch"}
    assert servers.http2.authorities == []
