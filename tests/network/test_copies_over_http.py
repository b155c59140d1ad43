"""Inputs and outputs through the server's door: a tenant, a journal, the client over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox, LeftOut, PolicyError, StoreFailed
from dayfly.journal import Journal, Reader, audit
from dayfly.manager import Admission, Allowance, Capacity, Tenants
from dayfly.policy import Policy
from dayfly.server import Configuration
from dayfly.server.app import create_app
from dayfly.server.keys import Keys
from dayfly.server.services import Services
from dayfly.server.serving import Listener, serve
from tests.egress.objects.store import KEY_ID, SECRET, Store, put, seen
from tests.manager.house import SIGNER
from tests.network.lake import Keys as LakeKeys
from tests.network.lake import place
from tests.network.world import STORE, House, World

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

REACH = {"names": [STORE], "private": ["127.0.0.0/8"], "secrets": ["lake-key"]}


class Served:
    """A server over a real manager. ``told``: (kind, facts) of a sandbox's chain."""

    def __init__(self, house: House, directory: Path) -> None:
        directory.chmod(0o700)
        self.path = directory / "journal.db"
        self._journal = Journal(self.path, SIGNER)
        self._keys = Keys(directory / "state.db")
        self._configuration = Configuration(port=0, drain_seconds=1, network=REACH)
        self._listener = Listener.bind(self._configuration)
        self._stop = asyncio.Event()
        admission = Admission(Capacity(100, 1 << 40, 100, 0), lambda tenant: Allowance(), free_memory=lambda: 1 << 40)
        self.tenants = Tenants(house.manager, admission, lambda tenant: Allowance(), journal=self._journal)

    async def run(self) -> None:
        services = Services(self.tenants, self._keys, _ready, self._configuration)
        await serve(create_app(services), self._listener, self._configuration, self._stop, self.tenants.end_all)

    async def close(self, running: asyncio.Task[None]) -> None:
        self._stop.set()
        await running
        await self.tenants.close()
        self._journal.close()
        assert not list(audit(self.path, SIGNER.verifier))

    def sandbox(self, **policy: Any) -> AsyncSandbox:
        key = self._keys.create("anna", "test", ("run",))[1]
        return AsyncSandbox(Policy(image="tiny", **policy), url=self._listener.url, api_key=key)

    def told(self, chain: str) -> list[tuple[str, dict[str, Any]]]:
        self._journal.append("test", "flush", {}).result(5)
        return [(row.entry.kind, json.loads(row.entry.facts)) for row in Reader(self.path).entries(chain)]


async def _ready() -> None:
    return None


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def served(earth: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with earth.house(means=LakeKeys()) as house:
        made = Served(house, tmp_path_factory.mktemp("server"))
        running = asyncio.ensure_future(made.run())
        yield made
        await made.close(running)


@pytest.fixture(autouse=True)
def asked(world: World) -> World:
    world.names.table[STORE] = [["127.0.0.1"]]
    return world


async def test_files_go_in_and_come_out_and_all_is_written_down(served: Served, store: Store) -> None:
    put(store, {"http/in/a.csv": b"1,2\n", "http/in/sub/b": b"bee"})
    copies = {"inputs": [place(store, "http/in/")], "outputs": [place(store, "http/out/", **{"from": "out"})]}
    async with served.sandbox(**copies) as made:
        assert made.policy.inputs[0].to == "inputs"
        assert (await made.commands.run("mkdir out; cp -r inputs/. out; ln -s /etc/passwd out/link")).ok
        saved = await made.save_outputs()
        assert saved.keys == ("http/out/a.csv", "http/out/sub/b")
        assert (saved.size, saved.left_out) == (7, (LeftOut("out/link", "is a symbolic link"),))
        await made.files.write("out/later", b"later")
    expected = {"http/out/a.csv": b"1,2\n", "http/out/sub/b": b"bee", "http/out/later": b"later"}
    assert seen(store, "http/out/") == expected
    told = served.told(made.id)
    kinds = [kind for kind, _ in told]
    assert kinds[:2] == ["sandbox.opened", "inputs.copied"]
    assert kinds[-1] == "sandbox.ended"
    assert kinds.count("outputs.saved") == 2
    (copied,) = [facts for kind, facts in told if kind == "inputs.copied"]
    assert (copied["objects"], copied["bytes"]) == (2, 7)
    row = copied["inputs"][0]
    assert (row["credentials"], row["place"], row["keys"]) == (
        "lake-key",
        "s3://lake/http/in/",
        ["http/in/a.csv", "http/in/sub/b"],
    )
    last = [facts for kind, facts in told if kind == "outputs.saved"][-1]
    assert (last["objects"], last["left_out"], last["problem"]) == (3, [["out/link", "is a symbolic link"]], None)
    asked = [facts for kind, facts in told if kind == "egress.request"]
    assert {(one["method"], one["secret"], one["purpose"]) for one in asked} == {
        ("GET", "lake-key", "copies"),
        ("PUT", "lake-key", "copies"),
    }
    everything = served.path.read_bytes()
    assert KEY_ID.encode() not in everything
    assert SECRET.encode() not in everything


async def test_the_last_time_is_the_last(served: Served, store: Store) -> None:
    async with served.sandbox(outputs=[place(store, "http/last/")]) as made:
        await made.files.write("outputs/a", b"1")
        await made.save_outputs(last=True)
        await made.files.write("outputs/b", b"2")
    assert seen(store, "http/last/") == {"http/last/a": b"1"}


async def test_a_store_that_fails_at_the_end_is_told_over_http(served: Served, store: Store) -> None:
    made = await served.sandbox(outputs=[place(store, "http/x/", bucket="lake", endpoint=f"https://{STORE}:9")]).open()
    await made.files.write("outputs/a", b"1")
    with pytest.raises(StoreFailed, match="not reached"):
        await made.save_outputs()
    with pytest.raises(StoreFailed, match="has ended and its outputs were not saved"):
        await made.close()
    last = [facts for kind, facts in served.told(made.id) if kind == "outputs.saved"][-1]
    assert "not reached" in last["problem"]


async def test_inputs_that_fail_are_the_callers_to_hear(served: Served, store: Store) -> None:
    with pytest.raises(StoreFailed, match="not reached"):
        await served.sandbox(inputs=[place(store, "in/", endpoint=f"https://{STORE}:9")]).open()
    with pytest.raises(PolicyError, match=r"inputs\[0\].*may use the secret other"):
        await served.sandbox(inputs=[place(store, "in/", credentials="other")]).open()
    with pytest.raises(PolicyError, match=r"outputs\[0\].*not a name that a policy over HTTP may have"):
        await served.sandbox(outputs=[place(store, "in/", endpoint="https://elsewhere.example.com")]).open()
    assert not served.tenants.usage("anna").sandboxes


async def test_who_has_no_outputs_has_none_to_save(served: Served) -> None:
    async with served.sandbox() as made:
        with pytest.raises(PolicyError, match="has no outputs"):
            await made.save_outputs()
