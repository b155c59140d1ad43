"""A policy of ten lines, as a person writes it: a package, an API with a key, one prefix of a bucket; and all of it in the journal."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.indexes import MachineIndexes
from dayfly.manager.means import MachineMeans
from dayfly.network import PackageKind
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC
from dayfly.secrets import Environment, Files, Ring, Vault
from tests.egress.objects.store import BUCKET, KEY_ID, SECRET, Store
from tests.network.journal import Heard
from tests.network.world import STORE, House, World
from tests.packages.index import HOST, PORT, Index

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

POLICY = """
[[network]]
packages = {{ python = ["demo"] }}
[[network]]
host = "api.example.com"
paths = ["/v1/*"]
inject = {{ secret = "crm" }}
[[network]]
objects = {{ bucket = "{bucket}", prefix = "data/", endpoint = "{endpoint}", credentials = "lake" }}
private = "127.0.0.0/8"
"""

KEY = "canary-of-the-api"


@pytest.fixture(scope="module")
def index(earth: World) -> Iterator[Index]:
    made = Index()
    for name in ("demo", "other"):
        made.add(name, "1.0")
    with made.running(earth.internet.bind("far", "tcp", PUBLIC[0], PORT)):
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(earth: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    settings = {
        "DAYFLY_SECRET_CRM": KEY, "DAYFLY_SECRET_CRM__HOSTS": "api.example.com",
        "DAYFLY_SECRET_LAKE": f"{KEY_ID}:{SECRET}", "DAYFLY_SECRET_LAKE__HOSTS": STORE,
    }  # fmt: skip
    vault = Vault(Files(tmp_path_factory.mktemp("secrets")), Environment(settings), Ring())
    urls: dict[PackageKind, str] = {"python": f"http://{HOST}:{PORT}/simple/"}
    async with earth.house(means=MachineMeans(vault, MachineIndexes(lambda: urls))) as made:
        yield made


async def test_a_policy_of_ten_lines_does_all_and_all_is_written_down(
    house: House, world: World, store: Store, index: Index, tmp_path: Path
) -> None:
    world.names.table[HOST] = [[PUBLIC[0]]]
    world.names.table[STORE] = [["127.0.0.1"]]
    heard = Heard(tmp_path)
    text = POLICY.format(bucket=BUCKET, endpoint=f"https://{STORE}:{store.secure_port}")
    assert len(text.strip().splitlines()) <= 10
    policy = Policy.model_validate({**tomllib.loads(text), "image": "data"})
    async with AsyncSandbox(policy, opener=house.manager) as sandbox:
        house.manager._life(sandbox.id).keep_record(heard.record(sandbox.id))

        installed = await sandbox.commands.run("pip install demo && python3 -c 'import demo'", timeout=60)
        assert installed.ok, installed
        refused = await sandbox.commands.run("pip install other", timeout=60)
        assert not refused.ok
        assert "other" in refused.stderr.decode()
        assert [one.code for one in refused.denied] == ["package_not_listed"]

        called = await sandbox.commands.run("curl -sS https://api.example.com/v1/page", timeout=30)
        assert called.text == "api.example.com /v1/page"
        assert f"authorization: Bearer {KEY}".lower() in world.heard().lower()
        assert not (await sandbox.commands.run("curl -sSf https://api.example.com/admin", timeout=30)).ok

        place = f"http://objects.dayfly.internal/{BUCKET}"
        read = await sandbox.commands.run(f"curl -sSf {place}/data/a.csv", timeout=30)
        assert read.ok, read
        assert read.text.startswith("x,y")
        next_one = await sandbox.commands.run(f"curl -sS {place}/data-other/secret.txt", timeout=30)
        assert "AccessDenied" in next_one.text
        assert [one.code for one in next_one.denied] == ["object_not_listed"]

    rows = heard.of("egress.request")
    found = {(row["host"], row["path"], row["status"], row["secret"], row["code"]) for row in rows}
    bucket = f"/{BUCKET}/data"
    assert found >= {
        ("api.example.com", "/v1/page", 200, "crm", None),
        ("api.example.com", "/admin", 403, None, "request_not_listed"),
        ("objects.dayfly.internal", f"{bucket}/a.csv", 200, "lake", None),
        ("objects.dayfly.internal", f"{bucket}-other/secret.txt", 403, None, "object_not_listed"),
        ("packages.dayfly.internal", "/python/simple/demo/", 200, None, None),
    }
    assert "packages.dayfly.internal" in {row["host"] for row in rows if row["code"] == "package_not_listed"}
    assert {row["code"] for row in heard.of("egress.denied")} == {
        "package_not_listed",
        "request_not_listed",
        "object_not_listed",
    }
    assert {row["host"] for row in heard.of("egress.used")} == {row["host"] for row in rows}
    assert heard.has("api.example.com"), "the control"
    for value in (KEY, SECRET, KEY_ID):
        assert not heard.has(value)
