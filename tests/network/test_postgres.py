"""A real PostgreSQL server, in a sandbox without a network of its own, and libpq's clients in another one, over the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing, suppress

import pytest
import pytest_asyncio

from dayfly import AsyncPort, AsyncSandbox, PortClosed
from dayfly.network import Rule
from dayfly.prove.internet import PUBLIC
from tests.machine import image
from tests.network.world import EVIL, House, World, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

PG, OPEN = 5433, 5434
"""The same server behind a rule that wants TLS, and behind one that looks at nothing."""

RULES = (
    Rule(host="api.example.com", ports=[PG], protocol="postgres"),
    Rule(host="raw.example.com", ports=[OPEN], protocol="tcp"),
)

SETUP = """
set -e
PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH
initdb -D pg -U me --auth=trust --no-sync --no-locale -E UTF8 >/dev/null
chmod 600 key.pem
"""

SERVE = (
    "exec $(ls -d /usr/lib/postgresql/*/bin)/postgres -D pg -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off "
    "-c ssl=on -c ssl_cert_file=$PWD/ca.pem -c ssl_key_file=$PWD/key.pem"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def database(earth: World, home: House) -> AsyncIterator[AsyncSandbox]:
    image("postgres")
    async with home.believing(image="postgres") as made:
        await made.files.write("key.pem", earth.certificate.with_name("key").read_bytes())
        prepared = await made.commands.run(SETUP, timeout=120)
        assert prepared.ok, prepared.stderr
        await made.commands.start(SERVE)
        ready = await made.commands.run("until pg_isready -q -h 127.0.0.1; do sleep 0.05; done", timeout=60)
        assert ready.ok, ready.stderr
        async with await bridged(earth, made, PG), await bridged(earth, made, OPEN):
            yield made


async def bridged(earth: World, database: AsyncSandbox, port: int) -> asyncio.Server:
    """Whoever comes to the port in the outer world talks to the server in the sandbox."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, PortClosed), closing(writer):
            async with await database.connect_port(5432) as inside:
                await asyncio.gather(outward(inside, writer), inward(inside, reader))

    async def outward(inside: AsyncPort, writer: asyncio.StreamWriter) -> None:
        while data := await inside.read():
            writer.write(data)
            await writer.drain()
        writer.close()

    async def inward(inside: AsyncPort, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65536):
            await inside.write(data)
        await inside.write_eof()

    return await asyncio.start_server(serve, sock=earth.internet.bind("far", "tcp", PUBLIC[0], port))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def asking(home: House) -> AsyncIterator[AsyncSandbox]:
    image("clients")
    async with home.believing(*RULES, image="clients") as made:
        yield made


CODE = """
import psycopg
with psycopg.connect(f"{sys.argv[1]} user=me dbname=postgres sslrootcert=ca.pem connect_timeout=20") as peer:
    peer.execute("create table if not exists kept (n int, what text)")
    with peer.cursor() as cursor:
        with cursor.copy("copy kept from stdin") as copy:
            for number in range(20_000): copy.write_row((number, "x" * 20))
        print(cursor.execute("select sum(n), count(*) from kept where n >= %s", [10]).fetchone(), peer.pgconn.ssl_in_use)
    peer.rollback()
"""


@pytest.mark.parametrize(
    ("place", "tls"),
    [
        (f"host=api.example.com port={PG} sslmode=verify-full", True),
        (f"host=api.example.com port={PG} sslmode=require", True),
        (f"host=api.example.com port={PG}", True),
        (f"host=raw.example.com port={OPEN} sslmode=disable", False),
    ],
)
async def test_psycopg_talks_to_a_real_server(
    asking: AsyncSandbox, database: AsyncSandbox, world: World, place: str, tls: bool
) -> None:
    done = await python(asking, CODE, place, timeout=60)
    assert done.text == f"({sum(range(20_000)) - 45}, 19990) {tls}\n", done
    assert done.denied == ()


@pytest.mark.parametrize(
    ("place", "codes"),
    [
        (f"host=api.example.com port={PG} sslmode=disable", {"not_tls"}),
        (f"host={EVIL} port={PG} sslmode=require", {"not_listed"}),
        (f"host=api.example.com port={PG} sslmode=require sslsni=0", {"sni_mismatch"}),
    ],
)
async def test_psycopg_gets_nowhere_as_no_rule_says(
    asking: AsyncSandbox, database: AsyncSandbox, world: World, place: str, codes: set[str]
) -> None:
    """The same server, the same code; the control is above."""
    done = await python(asking, CODE, place, timeout=60)
    assert not done.ok
    assert {one.code for one in done.denied} == codes, done
