"""Packages in a real sandbox, through a real gateway, from an index in the internet of namespaces."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.indexes import MachineIndexes
from dayfly.manager.outlet import NoMeans
from dayfly.network import PackageKind, Rule, RuleList, parse_network
from dayfly.prove.internet import PUBLIC
from tests.network.search import places_of
from tests.network.world import House, World, python
from tests.packages.index import HOST, PORT, Index

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

LISTED = parse_network([{"packages": {"python": ["demo", "helper==1.5", "missing", "sourced"], "node": ["left"]}}])
SECRET = "index-password"


class Means(NoMeans):
    """A machine that is set to the index of this world."""

    def __init__(self) -> None:
        urls: dict[PackageKind, str] = {
            "python": f"http://me:{SECRET}@{HOST}:{PORT}/simple/",
            "node": f"http://:{SECRET}@{HOST}:{PORT}/",
        }
        self._machine = MachineIndexes(lambda: urls)

    async def indexes(self, rules: RuleList) -> dict[PackageKind, str]:
        return await self._machine.of(rules)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stocked(earth: World) -> AsyncIterator[Index]:
    index = Index()
    index.add("demo", "1.0", ("helper>=1",))
    index.add("helper", "1.5")
    index.add("other", "1.0")
    index.add_source("sourced", "1.0")
    index.add_node("left", "1.0.0")
    with index.running(earth.internet.bind("far", "tcp", PUBLIC[0], PORT)):
        yield index


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(earth: World) -> AsyncIterator[House]:
    async with earth.house(means=Means()) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def buyer(shop: House) -> AsyncIterator[AsyncSandbox]:
    async with shop.sandbox(*LISTED, image="data") as made:
        yield made


@pytest.fixture
def index(stocked: Index, world: World) -> Index:
    world.names.table[HOST] = [[PUBLIC[0]]]
    stocked.asked.clear()
    return stocked


async def test_a_listed_package_is_installed_and_imported(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run("pip install demo", timeout=60)
    assert done.ok, done.stderr
    assert "Successfully installed demo-1.0 helper-1.5" in done.text
    assert done.denied == ()
    execution = await buyer.run_code("import demo, helper; print(demo.VERSION, helper.VERSION)")
    assert execution.stdout == "1.0 1.5\n", execution


async def test_code_installs_as_a_notebook_does(buyer: AsyncSandbox, index: Index) -> None:
    execution = await buyer.run_code("%pip install --force-reinstall demo", timeout=60)
    assert "Successfully installed demo-1.0 helper-1.5" in execution.stdout, execution


async def test_another_package_is_refused_with_the_reason(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run("pip install other", timeout=60)
    assert not done.ok
    assert b"The Python package other is not on this sandbox's list of packages." in done.stderr
    assert {(one.host, one.code, one.claimed) for one in done.denied} == {
        ("packages.dayfly.internal", "package_not_listed", False)
    }
    assert index.asked == []


async def test_what_does_not_exist_is_not_found(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run(
        "pip install missing; curl -s -o /dev/null -w '%{http_code}' http://packages.dayfly.internal/python/simple/missing/",
        timeout=60,
    )
    assert done.text.endswith("404")
    assert done.denied == ()
    done = await buyer.commands.run(
        "curl -s -o /dev/null -w '%{http_code}' http://packages.dayfly.internal/python/simple/other/", timeout=60
    )
    assert done.text == "403"


async def test_a_source_archive_is_not_built(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run("pip install sourced", timeout=60)
    assert not done.ok
    assert b"it has no wheels" in done.stderr
    assert [path for _, path, _ in index.asked if path.startswith("/files/")] == []


async def test_node_gets_documents_and_files(buyer: AsyncSandbox, index: Index) -> None:
    code = """
    const at = 'http://packages.dayfly.internal/node/'
    const document = await (await fetch(at + 'left')).json()
    const file = await fetch(document.versions['1.0.0'].dist.tarball)
    const other = await fetch(at + '@scope%2fother')
    console.log(JSON.stringify([(await file.arrayBuffer()).byteLength, other.status, (await other.json()).error]))
    """
    done = await buyer.run_code(code, language="javascript", timeout=60)
    size, status, error = json.loads(done.stdout)
    assert (size, status) == (len(index.files["/left/-/left-1.0.0.tgz"]), 403)
    assert "@scope/other is not on this sandbox's list" in error


async def test_the_indexes_credentials_are_used_and_not_inside(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run(
        "env; curl -si http://packages.dayfly.internal/python/simple/demo/; curl -si http://packages.dayfly.internal/node/left",
        timeout=60,
    )
    assert "demo-1.0-py3-none-any.whl" in done.text
    assert SECRET not in done.text
    assert all(authorization for _, _, authorization in index.asked)
    assert await places_of(buyer, SECRET) == []


async def test_the_index_itself_is_not_reached(buyer: AsyncSandbox, index: Index) -> None:
    done = await python(
        buyer,
        f"""
for host in {HOST!r}, {PUBLIC[0]!r}:
    try: connect(host, {PORT})
    except OSError as error: print(type(error).__name__)
""",
    )
    assert len(done.text.split()) == 2, done
    assert index.asked == []


async def test_nothing_is_uploaded(buyer: AsyncSandbox, index: Index) -> None:
    done = await buyer.commands.run(
        "for method in PUT POST DELETE; do curl -s -X $method -d secret -o /dev/null -w '%{http_code} ' http://packages.dayfly.internal/node/left; done",
        timeout=60,
    )
    assert done.text == "403 403 403 "
    assert {one.code for one in done.denied} == {"request_not_listed"}
    assert index.asked == []


async def test_a_change_is_what_programs_are_told(shop: House, index: Index) -> None:
    async with shop.sandbox(image="data") as made:
        done = await made.commands.run("pip install demo", timeout=60)
        assert b"this-sandbox-has-no-network.invalid" in done.stderr
        await made.set_network(LISTED)
        done = await made.commands.run("pip install demo", timeout=60)
        assert done.ok, done.stderr
        await made.set_network([Rule(host="web.example.com", ports=[80])])
        done = await made.commands.run(
            "echo ${PIP_INDEX_URL-unset}; COLUMNS=999 pip install --help | grep -e --index-url", timeout=60
        )
        assert done.text.startswith("unset")
        assert "(default https://" in done.text
        assert "dayfly" not in done.text
        assert ".invalid" not in done.text


async def test_without_a_network_pip_says_so_and_does_not_hang(shop: House) -> None:
    """A command that takes 15 s is ended: then there is no such message."""
    async with shop.sandbox(image="data") as made:
        await made.commands.run("pip --version", timeout=60)
        done = await made.commands.run("pip install demo", timeout=15)
        assert not done.ok
        assert b"Failed to resolve 'this-sandbox-has-no-network.invalid'" in done.stderr
        execution = await made.run_code("%pip install demo", timeout=15)
        assert "this-sandbox-has-no-network.invalid" in execution.stdout + execution.stderr
