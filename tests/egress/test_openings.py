"""What a connection may begin with: nothing that was not checked reaches the server."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly.egress.client import Gateway, Tunnel
from dayfly.egress.openings import GSS_REQUEST, MOST, SSL_REQUEST
from dayfly.egress.terms import Terms
from tests.egress import client_hello as tls
from tests.egress.canary import Canary, Visit
from tests.egress.client_hello import GREASE, ClientHello, hello
from tests.egress.conftest import local

HOST = b"localhost"
GOOD = {
    "of TLS 1.3": hello(HOST).records(),
    "of TLS 1.2": ClientHello([tls.server_name(HOST), *tls.usual()]).records(version=0x0303),
    "upper case": hello(b"LOCALhost").records(),
    "one byte in a record": hello(HOST).records(1),
    "many records": hello(HOST, more=[tls.padding(15_000)]).records(1000),
    "with GREASE": ClientHello(
        [
            (GREASE, b""),
            tls.server_name(HOST),
            (tls.GROUPS, tls.vector(tls.shorts(GREASE, 4588, 29), 2)),
            tls.usual()[1],
            (tls.VERSIONS, tls.vector(tls.shorts(GREASE, 0x0304), 1)),
            tls.tls13([(GREASE, b"\0"), (4588, bytes(1216)), (29, bytes(range(32)))])[1],
            (GREASE + 0x1010, b"\0"),
        ],
        ciphers=(GREASE, 0x1301, 0xC02F),
        session=bytes(32),
    ).records(),
    "that asks to be asked again": ClientHello([tls.server_name(HOST), *tls.usual(), *tls.tls13(())]).records(),
    "with early data behind it": hello(HOST).records() + b"\x17\x03\x03\x00\x05early",
}
MISNAMED = {
    "another name": hello(b"evil.example.net").records(),
    "a name below": hello(b"a.localhost").records(),
    "a name that ends so": hello(b"evil-localhost").records(),
    "a trailing dot": hello(HOST + b".").records(),
    "no name": hello().records(),
    "an empty name": hello(b"").records(),
    "an address": hello(b"127.0.0.1").records(),
    "a space": hello(HOST + b" ").records(),
    "an encrypted hello": hello(HOST, more=[(tls.ECH, b"\0\0\1\0\1" + bytes(100))]).records(),
}
NOT_TLS = {
    "two names": hello(HOST, b"evil.example.net").records(),
    "two names, the other first": hello(b"evil.example.net", HOST).records(),
    "two lists of names": hello(HOST, more=[tls.server_name(b"evil.example.net")]).records(),
    "a zero byte": hello(HOST + b"\0.evil.example.net").records(),
    "not ASCII": hello("löcalhost".encode()).records(),
    "a name of another kind": ClientHello([tls.server_name(HOST, kind=1), *tls.usual(), *tls.tls13()]).records(),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a proxy's CONNECT": b"CONNECT localhost:443 HTTP/1.1\r\n\r\n",
    "a first byte only": b"\x16" + b"garbage" * 10,
    "a header only": b"\x16\x03\x01\x00\x30" + b"garbage" * 10,
    "an alert": b"\x15\x03\x01\x00\x02\x01\x00",
    "SSL 2 (of which some OpenSSL makes a hello without a name)": b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10"
    + b"\x01\x00\x80" * 7
    + bytes(16),
    "a ServerHello": tls.records(b"\x02" + hello(HOST).message()[1:]),
    "PostgreSQL": SSL_REQUEST,
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def gateway(kept: Gateway) -> Gateway:
    return kept


@pytest_asyncio.fixture(loop_scope="module")
async def canary() -> AsyncIterator[Canary]:
    made = await Canary().listen()
    yield made
    await made.close()


ANSWER = tls.records(b"\x02" + tls.vector(b"\x03\x03" + bytes(70), 3), version=0x0303)


async def serve_tls(visit: Visit) -> None:
    """As much of a server as the gateway looks at: an answer to the hello; and then an echo."""
    await visit.read()
    visit.writer.write(ANSWER)
    while data := await visit.read():
        visit.writer.write(data)


async def heard(tunnel: Tunnel, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = await tunnel.read(count - len(data))
        assert piece
        data += piece
    return data


async def connected(gateway: Gateway, canary: Canary, protocol: str) -> Tunnel:
    await gateway.admit("one", Terms(rules=local(canary.port, protocol)))
    return await gateway.connect("one", "localhost", canary.port)


async def refused(gateway: Gateway, canary: Canary, protocol: str, said: bytes) -> tuple[str, bytes]:
    """The code with which the tunnel ended, and what the server has heard."""
    tunnel = await connected(gateway, canary, protocol)
    await tunnel.write(said)
    with pytest.raises(ConnectionResetError):
        await tunnel.read(100)
    visit = await canary.visit()
    await visit.over.wait()
    assert tunnel.denied is not None
    assert tunnel.closed is not None
    assert tunnel.denied.code == tunnel.closed.why
    tunnel.close()
    return tunnel.denied.code, bytes(visit.said)


@pytest.mark.parametrize("what", GOOD)
async def test_a_hello_to_the_judged_host_passes_whole(gateway: Gateway, canary: Canary, what: str) -> None:
    canary.behave = serve_tls
    tunnel = await connected(gateway, canary, "tls")
    await tunnel.write(GOOD[what])
    assert await heard(tunnel, len(ANSWER)) == ANSWER
    await tunnel.write(b"and anything after it")
    tunnel.write_eof()
    while await tunnel.read(65536):
        pass
    assert (await canary.visit()).said == GOOD[what] + b"and anything after it"
    tunnel.close()


@pytest.mark.parametrize("what", MISNAMED)
async def test_a_hello_to_anybody_else_reaches_nobody(gateway: Gateway, canary: Canary, what: str) -> None:
    assert await refused(gateway, canary, "tls", MISNAMED[what]) == ("sni_mismatch", b"")


@pytest.mark.parametrize("what", NOT_TLS)
async def test_what_is_no_hello_reaches_nobody(gateway: Gateway, canary: Canary, what: str) -> None:
    code, heard = await refused(gateway, canary, "tls", NOT_TLS[what])
    assert heard == b""
    assert code in ("not_tls", "sni_mismatch" if "SSL 2" in what else "not_tls")


async def test_a_hello_beyond_16_kib_reaches_nobody(gateway: Gateway, canary: Canary) -> None:
    said = hello(HOST, more=[tls.padding(MOST)]).records()
    assert await refused(gateway, canary, "tls", said) == ("not_tls", b"")


async def test_a_hello_that_comes_byte_by_byte_waits_for_its_last_one(gateway: Gateway, canary: Canary) -> None:
    tunnel = await connected(gateway, canary, "tls")
    said = hello(HOST).records(64)
    visit = await canary.visit()
    for at in range(len(said) - 1):
        await tunnel.write(said[at : at + 1])
        if at % 16 == 0:
            await asyncio.sleep(0)
    assert visit.said == b""
    await tunnel.write(said[-1:])
    await tunnel.read(1)
    assert visit.said == said
    tunnel.close()


CHANGE = b"\x14\x03\x03\x00\x01\x01"
RETRY = tls.records(
    b"\x02" + tls.vector(b"\x03\x03" + hashlib.sha256(b"HelloRetryRequest").digest() + b"\0\x13\x01\0" + bytes(20), 3),
    version=0x0303,
)


async def ask_again(visit: Visit) -> None:
    await visit.read()
    visit.writer.write(RETRY)
    while data := await visit.read():
        visit.writer.write(data)


@pytest.mark.parametrize("between", [b"", CHANGE])
async def test_a_second_hello_that_the_server_asks_for_passes(gateway: Gateway, canary: Canary, between: bytes) -> None:
    canary.behave = ask_again
    tunnel = await connected(gateway, canary, "tls")
    first, second = hello(HOST).records(), hello(HOST).records()
    await tunnel.write(first)
    assert await heard(tunnel, len(RETRY)) == RETRY
    await tunnel.write(between + second)
    assert await heard(tunnel, len(between + second)) == between + second
    assert (await canary.visit()).said == first + between + second
    tunnel.close()


@pytest.mark.parametrize("together", [True, False], ids=["before it is asked for", "when it is asked for"])
@pytest.mark.parametrize("between", [b"", CHANGE, CHANGE * 2, b"\x17\x03\x03\0\1x"])
async def test_a_second_hello_to_anybody_else_reaches_nobody(
    gateway: Gateway, canary: Canary, between: bytes, together: bool
) -> None:
    canary.behave = ask_again
    tunnel = await connected(gateway, canary, "tls")
    first, second = hello(HOST).records(), between + hello(b"evil.example.net").records()
    await tunnel.write(first + second if together else first)
    if not together:
        await tunnel.read(1000)
        await tunnel.write(second)
    with suppress(ConnectionResetError):
        while await tunnel.read(1000):
            pass
    assert tunnel.denied is not None
    assert (await canary.visit()).said.removesuffix(CHANGE) == first
    tunnel.close()


async def test_two_messages_in_one_record_reach_nobody(gateway: Gateway, canary: Canary) -> None:
    said = tls.records(hello(HOST).message() + hello(b"evil.example.net").message())
    assert await refused(gateway, canary, "tls", said) == ("not_tls", b"")


async def test_a_server_that_speaks_first_is_not_heard_before_the_check(gateway: Gateway, canary: Canary) -> None:
    async def greet(visit: Visit) -> None:
        visit.writer.write(b"SSH-2.0-server\r\n")
        await visit.read_all()

    canary.behave = greet
    tunnel = await connected(gateway, canary, "tls")
    reading = asyncio.ensure_future(tunnel.read(100))
    await canary.visit()
    await tunnel.write(b"SSH-2.0-client\r\n")
    with pytest.raises(ConnectionResetError, match="not_tls"):
        await reading
    assert tunnel.received == 0
    tunnel.close()


async def test_who_says_nothing_is_waited_for_and_then_not(gateway: Gateway, canary: Canary) -> None:
    tunnel = await connected(gateway, canary, "tls")
    tunnel.write_eof()
    assert await tunnel.read(10) == b""
    await (await canary.visit()).over.wait()
    tunnel.close()


@pytest.mark.parametrize("curve", ["prime256v1", "secp521r1"])
async def test_a_real_client_and_a_real_server_come_together(gateway: Gateway, tmp_path: Path, curve: str) -> None:
    """The standard library's own. With the second curve, of which the client sends no share, the server asks again."""
    trust, server = await _tls_server(tmp_path, curve)
    await gateway.admit("one", Terms(rules=local(server.sockets[0].getsockname()[1], "tls")))
    tunnel = await gateway.connect("one", "localhost", server.sockets[0].getsockname()[1])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(incoming, outgoing, server_hostname="localhost")

    async def until_done(step: Callable[[], object]) -> object:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await tunnel.write(outgoing.read())
                incoming.write(await tunnel.read(65536))
            finally:
                await tunnel.write(outgoing.read())

    await until_done(client.do_handshake)
    client.write(b"hello")
    assert await until_done(lambda: client.read(100)) == b"hello"
    assert client.version() == "TLSv1.3"
    tunnel.close()
    server.close()


async def _tls_server(directory: Path, curve: str) -> tuple[ssl.SSLContext, asyncio.Server]:
    """One that echoes, and a client's context that trusts it."""
    files = directory / "key.pem", directory / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, "-keyout", files[0], "-out", files[1]]
    subprocess.run(making, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    context.set_ecdh_curve(curve)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    return ssl.create_default_context(cafile=str(files[1])), server


# --- HTTP ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_line",
    [
        "GET / HTTP/1.1\r\nHost: {0}",
        "GET / HTTP/1.1\r\nHost: LOCALHOST:{1}",
        "POST http://{0}:{1}/x?y HTTP/1.1\r\nHost: {0}",
    ],
)
async def test_a_request_to_the_judged_host_passes(gateway: Gateway, canary: Canary, request_line: str) -> None:
    tunnel = await connected(gateway, canary, "http")
    said = request_line.format("localhost", canary.port).encode() + b"\r\nContent-Length: 2\r\n\r\nhi"
    await tunnel.write(said)
    assert await tunnel.read(1000) == said
    tunnel.close()


@pytest.mark.parametrize(
    "request_head",
    [
        "GET / HTTP/1.1\r\nHost: evil.example.net",
        "GET / HTTP/1.1\r\nHost: localhost:1",
        "GET / HTTP/1.1\r\nHost: localhost@evil.example.net",
        "GET / HTTP/1.1\r\nHost: localhost, evil.example.net",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1",
        "GET / HTTP/1.1\r\nHost: ",
        "GET http://evil.example.net/ HTTP/1.1\r\nHost: localhost",
        "GET https://localhost/ HTTP/1.1\r\nHost: localhost",
        "GET //evil.example.net/ HTTP/1.0",
        "GET evil.example.net HTTP/1.1\r\nHost: localhost",
        "CONNECT evil.example.net:443 HTTP/1.1\r\nHost: localhost",
    ],
)
async def test_a_request_to_anybody_else_reaches_nobody(gateway: Gateway, canary: Canary, request_head: str) -> None:
    code, heard = await refused(gateway, canary, "http", request_head.encode() + b"\r\n\r\n")
    assert (code, heard) == ("sni_mismatch", b"")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n\r\n",
        hello(HOST).records(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.net\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
        b"\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example.net\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * MOST,
    ],
)
async def test_what_is_no_request_reaches_nobody(gateway: Gateway, canary: Canary, said: bytes) -> None:
    code, heard = await refused(gateway, canary, "http", said)
    assert (code, heard) == ("not_tls", b"")


# --- PostgreSQL ---------------------------------------------------------------------------------------------------------


async def offer_tls(visit: Visit) -> None:
    asked = await visit.read()
    visit.writer.write(b"S" if asked == SSL_REQUEST else b"")
    while data := await visit.read():
        visit.writer.write(data)


async def test_postgres_begins_with_its_request_and_then_tls(gateway: Gateway, canary: Canary) -> None:
    canary.behave = offer_tls
    tunnel = await connected(gateway, canary, "postgres")
    await tunnel.write(GSS_REQUEST)
    assert await tunnel.read(10) == b"N"
    await tunnel.write(SSL_REQUEST)
    assert await tunnel.read(10) == b"S"
    said = hello(HOST).records()
    await tunnel.write(said)
    assert await heard(tunnel, len(said)) == said
    tunnel.write_eof()
    assert await tunnel.read(10) == b""
    assert tunnel.closed is not None
    # what was handed over and got counts, though the gateway has answered the first eight bytes itself
    assert (tunnel.closed.sent, tunnel.closed.received) == (len(said) + 16, len(said) + 2)
    tunnel.close()


async def test_postgres_that_begins_with_tls_at_once_passes(gateway: Gateway, canary: Canary) -> None:
    tunnel = await connected(gateway, canary, "postgres")
    said = hello(HOST).records()
    await tunnel.write(said)
    assert await heard(tunnel, len(said)) == said
    tunnel.close()


async def test_postgres_to_another_name_reaches_nobody(gateway: Gateway, canary: Canary) -> None:
    canary.behave = offer_tls
    tunnel = await connected(gateway, canary, "postgres")
    await tunnel.write(SSL_REQUEST)
    assert await tunnel.read(10) == b"S"
    await tunnel.write(hello(b"evil.example.net").records())
    with pytest.raises(ConnectionResetError, match="sni_mismatch"):
        await tunnel.read(10)
    assert (await canary.visit()).said == SSL_REQUEST
    tunnel.close()


STARTUP = b"\0\0\0\x16\0\3\0\0user\0postgres\0\0"


@pytest.mark.parametrize(
    "said", [STARTUP, SSL_REQUEST + STARTUP, GSS_REQUEST + SSL_REQUEST, b"\0\0\0\x10\x04\xd2\x16\x2e" + bytes(8)]
)
async def test_postgres_in_the_clear_reaches_nobody(gateway: Gateway, canary: Canary, said: bytes) -> None:
    canary.behave = offer_tls
    assert await refused(gateway, canary, "postgres", said) == ("not_tls", b"")


async def test_postgres_without_tls_on_the_server_is_ended(gateway: Gateway, canary: Canary) -> None:
    async def offer_none(visit: Visit) -> None:
        await visit.read()
        visit.writer.write(b"N")
        await visit.read_all()

    canary.behave = offer_none
    tunnel = await connected(gateway, canary, "postgres")
    await tunnel.write(SSL_REQUEST)
    assert await tunnel.read(10) == b"N"
    with pytest.raises(ConnectionResetError, match="not_tls"):
        await tunnel.read(10)
    tunnel.close()
