"""Inputs and outputs of a store that lies: through the real gateway, and never more than a clear error and no sandbox."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox, InputError, StoreFailed
from dayfly.manager import Manager, inputs
from dayfly.manager.outlet import Outlet
from dayfly.policy import Policy
from tests.egress.canary import Canary, Visit
from tests.manager.house import Boundary, Images
from tests.network.lake import Keys
from tests.network.world import STORE, House, World

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

Answer = Callable[[str, str], bytes]
"""From a request's method and target to all that is answered."""


def ok(body: bytes, length: int | None = None) -> bytes:
    said = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % said + body


def listing(*rows: tuple[str, int], token: str = "") -> bytes:
    contents = "".join(f"<Contents><Key>{key}</Key><Size>{size}</Size></Contents>" for key, size in rows)
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return ok(f"<ListBucketResult>{contents}{more}</ListBucketResult>".encode())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lodge(earth: World) -> AsyncIterator[House]:
    async with earth.house(means=Keys()) as made:
        yield made


@asynccontextmanager
async def liar(world: World, answer: Answer) -> AsyncIterator[dict[str, Any]]:
    """A store that answers so; given as a place in it."""
    world.names.table[STORE] = [["127.0.0.1"]]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(world.certificate, world.certificate.with_name("key"))

    async def behave(visit: Visit) -> None:
        head = (await visit.reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split("\r\n")[0].split(" ")
        visit.writer.write(answer(method, target))
        await visit.writer.drain()
        visit.writer.write_eof() if visit.writer.can_write_eof() else visit.writer.close()

    server = Canary(behave)
    await server.listen(world.internet.bind("near", "tcp", "127.0.0.1", 0), tls)
    common = {"bucket": "lake", "prefix": "in/", "credentials": "lake-key", "private": "127.0.0.0/8"}
    try:
        yield {**common, "endpoint": f"https://{STORE}:{server.port}"}
    finally:
        await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hosts(earth: World, lodge: House) -> AsyncIterator[Manager]:
    """All of it but the inside, which takes what it is given: what hosts do with a lie is theirs alone."""
    outlet = Outlet(lodge.start, Keys())
    made = Manager({"gvisor": Boundary()}, Images(), lambda image: earth.certificate, outlet=outlet)  # type: ignore[arg-type]
    yield made
    await made.close()


async def brought(manager: Manager, world: World, answer: Answer) -> AsyncSandbox:
    async with liar(world, answer) as place:
        return await AsyncSandbox(Policy(image="tiny", inputs=[place]), opener=manager).open()


def one_object(key: str, size: int, content: bytes) -> Answer:
    return lambda method, target: listing((key, size)) if "list-type" in target else content


LIES: dict[str, tuple[Answer, type[Exception], str]] = {
    "outside": (one_object("other/secret", 1, ok(b"x")), InputError, r"the key 'other/secret' is not below the prefix"),
    "beside": (one_object("in", 1, ok(b"x")), InputError, "is not below the prefix"),
    "upwards": (one_object("in/../../etc/passwd", 1, ok(b"x")), InputError, "has an empty segment or one of dots"),
    "escaped": (one_object("in/%2e%2e/x", 1, ok(b"x")), InputError, "has an empty segment or one of dots"),
    "empty": (one_object("in/a//b", 1, ok(b"x")), InputError, "has an empty segment"),
    "newline": (one_object("in/a&#10;b", 1, ok(b"x")), InputError, r"the key 'in/a\\nb' has a backslash or a control"),
    "terminal": (one_object("in/a\x7f[2J", 1, ok(b"x")), InputError, r"a\\x7f\[2J' has a backslash or a control"),
    "long": (one_object("in/" + "n" * 256, 1, ok(b"x")), InputError, "longer than the 255 bytes"),
    "longest": (one_object("in/" + "n/" * 2000, 1, ok(b"x")), InputError, "is longer than 1024 bytes"),
    "directory": (one_object("in/a/", 1, ok(b"x")), InputError, "is a directory's name"),
    "prefix": (one_object("in/", 1, ok(b"x")), InputError, "is a directory's name"),
    "both": (lambda m, t: listing(("in/a", 1), ("in/a/b", 1)), InputError, "cannot be a file and a directory"),
    "twice": (lambda m, t: listing(("in/a", 1), ("in/a", 1)), InputError, "is listed twice"),
    "huge": (lambda m, t: listing(("in/a", 1 << 40)), InputError, "limits.disk is 2 GiB"),
    "size": (lambda m, t: listing(("in/a", 1 << 60)), StoreFailed, "without a key or a size"),
    "endless": (lambda m, t: listing(token="again"), StoreFailed, "does not end within 100 pages"),
    "many": (lambda m, t: listing(*((f"in/{n}", 0) for n in range(1001))), StoreFailed, "more than 1000 objects at once"),
    "half": (lambda m, t: ok(b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"), StoreFailed, "in two ways"),
    "bomb": (lambda m, t: ok(b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult/>"), StoreFailed, "has a DTD"),
    "no xml": (lambda m, t: ok(b"hello"), StoreFailed, "is no XML"),
    "large": (lambda m, t: ok(b" " * (5 << 20)), StoreFailed, "more than 4194304 bytes"),
    "longer": (one_object("in/a", 1, ok(b"xyz")), StoreFailed, "it has 3 bytes and was listed with 1"),
    "shorter": (one_object("in/a", 5, ok(b"xyz")), StoreFailed, "it has 3 bytes and was listed with 5"),
    "cut": (one_object("in/a", 5, ok(b"xyz", 5)), StoreFailed, "it broke off"),
    "refused": (lambda m, t: b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", StoreFailed, "refused this to the credentials"),
    "elsewhere": (lambda m, t: b"HTTP/1.1 302 No\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", StoreFailed, "nobody follows"),
}  # fmt: skip


LATE = ("longer", "shorter", "cut")
"""Seen when the sandbox is given the object; all others before it is given anything."""


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in LATE])
async def test_a_lie_is_told_and_nothing_of_the_sandbox_is_left(hosts: Manager, world: World, lie: str) -> None:
    await is_told(hosts, world, lie)


@pytest.mark.parametrize("lie", ["upwards", "half", *LATE])
async def test_a_lie_is_told_where_the_sandbox_is_real(lodge: House, world: World, lie: str) -> None:
    await is_told(lodge.manager, world, lie)


async def is_told(manager: Manager, world: World, lie: str) -> None:
    answer, kind, words = LIES[lie]
    with pytest.raises(kind, match=words) as caught:
        await brought(manager, world, answer)
    assert str(caught.value).isprintable()
    assert manager._lives == {}
    assert world.visited() == set()


async def test_a_listing_of_more_than_there_may_be_is_not_read_on(hosts: Manager, world: World) -> None:
    asked: list[str] = []

    def endless(method: str, target: str) -> bytes:
        asked.append(target)
        return listing(*((f"in/{len(asked)}/{n}", 1) for n in range(1000)), token="more")

    with pytest.raises(InputError, match="more than 10000 objects"):
        await brought(hosts, world, endless)
    assert len(asked) == 11


async def test_the_control_is_an_honest_one(lodge: House, world: World) -> None:
    made = await brought(lodge.manager, world, one_object("in/a", 3, ok(b"xyz")))
    async with made:
        assert await made.files.read("inputs/a") == b"xyz"


async def test_a_store_that_says_nothing_is_waited_for_no_longer_than_that(
    lodge: House, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "INPUT_SECONDS", 0.5)
    hang = asyncio.Event()

    async def behave(visit: Visit) -> None:
        await hang.wait()

    async with liar(world, lambda method, target: b"") as place:
        server = Canary(behave)
        await server.listen(world.internet.bind("near", "tcp", "127.0.0.1", 0))
        place["endpoint"] = f"https://{STORE}:{server.port}"
        with pytest.raises(StoreFailed, match=r"not there within 0\.5 s"):
            await AsyncSandbox(Policy(image="tiny", inputs=[place]), opener=lodge.manager).open()
        hang.set()
        await server.close()
    assert lodge.manager._lives == {}


async def test_credentials_are_not_in_what_is_told(hosts: Manager, world: World) -> None:
    """Where a store says whose they are."""
    body = b"<Error><Code>InvalidAccessKeyId</Code><Message>AKIDOFTHEREALOWNER does not exist</Message></Error>"
    head = b"HTTP/1.1 403 No\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    with pytest.raises(StoreFailed, match="InvalidAccessKeyId") as caught:
        await brought(hosts, world, lambda method, target: head + body)
    assert "AKIDOFTHEREALOWNER" not in str(caught.value)
