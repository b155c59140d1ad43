"""Secrets of a real store: each conversation has its own, and what is not there or not fit refuses the rules. Real sandboxes, the real gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.errors import PolicyError
from dayfly.indexes import MachineIndexes
from dayfly.manager import Manager
from dayfly.manager.means import MachineMeans
from dayfly.manager.paused import KeptFor
from dayfly.network import Rule
from dayfly.owner import Owner
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC
from dayfly.secrets import Entry, Environment, Files, Ring, SecretStr, Vault
from tests.network.world import House, World
from tests.secrets.canary import CANARY, seen_in

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

HOST = "api.example.com"
SENT_BACK = f"curl -sS https://{HOST}/v1/sent-back"


OF_THE_ENVIRONMENT = {
    "DAYFLY_SECRET_CRM": "of-friday",
    "DAYFLY_SECRET_CRM__HOSTS": HOST,
    "DAYFLY_SECRET_CRM__TENANT": "dora",
    "DAYFLY_SECRET_CRM__CONVERSATION": "friday",
}
"""One conversation's own."""


def rule(**inject: Any) -> Rule:
    return Rule(host=HOST, inject={"secret": "crm", **inject})


class Conversation:
    """An opener of sandboxes that are one conversation's."""

    def __init__(self, manager: Manager, tenant: str, conversation: str) -> None:
        self._manager = manager
        self._owner = {"tenant": tenant, "conversation": conversation}

    async def open(self, policy: Policy, *, env: Mapping[str, str] | None = None) -> Any:
        return await self._manager.open(policy, env=env, **self._owner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = Files(tmp_path_factory.mktemp("store") / "secrets")
    files.write(Entry(name="crm", hosts=(HOST,)), SecretStr(CANARY))
    files.write(Entry(name="crm", hosts=(HOST,), tenant="anna"), SecretStr("of-anna"))
    files.write(Entry(name="crm", hosts=(HOST,), tenant="anna", conversation="monday"), SecretStr("of-monday"))
    return files


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(earth: World, store: Files) -> AsyncIterator[House]:
    means = MachineMeans(Vault(store, Environment(OF_THE_ENVIRONMENT), Ring()), MachineIndexes(dict))
    async with earth.house(means=means) as made:
        yield made


async def test_a_site_that_sends_requests_back_does_not_give_the_secret_away(house: House, world: World) -> None:
    async with house.sandbox(rule(redact=True), image="data") as sandbox:
        done = await sandbox.commands.run(SENT_BACK + " -v --compressed -H 'Range: bytes=0-9'", timeout=30)
        assert "*redacted*" in done.text
        assert not seen_in(done.text + done.stderr.decode())
        assert CANARY in world.heard()
        assert (await sandbox.commands.run(f"curl -sS https://{HOST}/v1/plain", timeout=30)).text == f"{HOST} /v1/plain"
        await sandbox.set_network([rule()])  # the control: such a site does give it away where no rule says redact
        assert CANARY in (await sandbox.commands.run(SENT_BACK, timeout=30)).text


@pytest.mark.parametrize(
    ("tenant", "conversation", "expected"),
    [("anna", "monday", "of-monday"), ("anna", "tuesday", "of-anna"), ("bert", "monday", CANARY)],
)
async def test_each_conversation_has_its_own_secret_from_the_store(
    house: House, world: World, tenant: str, conversation: str, expected: str
) -> None:
    opener = Conversation(house.manager, tenant, conversation)
    policy = Policy(image="data", network=(rule(into="header", name="X-Key"),))
    async with AsyncSandbox(policy, opener=opener) as sandbox:
        assert (await sandbox.commands.run(SENT_BACK, timeout=30)).ok
    assert f"x-key: {expected}\r\n" in world.heard()
    others = {"of-monday", "of-anna", CANARY} - {expected}
    assert not any(other in world.heard() for other in others)


async def test_a_conversation_has_its_own_after_a_pause_too(house: House, world: World) -> None:
    policy = Policy(image="tiny", network=(rule(into="header", name="X-Key"),))
    fetch = f"from urllib.request import urlopen; urlopen('https://{HOST}/v1/sent-back').read()"
    life = await house.manager.open(policy, tenant="dora", conversation="friday")
    assert (await life.execute(fetch)).ok
    assert world.heard().count("x-key: of-friday\r\n") == 1
    await house.manager.pause(life.id, owner=KeptFor("dora", "friday"))
    life = await house.manager.resume(life.id)
    assert (await life.execute(fetch)).ok
    assert world.heard().count("x-key: of-friday\r\n") == 2
    await life.close()


async def test_a_secret_that_is_not_there_or_damaged_refuses_the_rules(
    house: House, store: Files, world: World
) -> None:
    other = Rule(host=HOST, inject={"secret": "other"})
    with pytest.raises(PolicyError, match="there is no secret other here"):
        await house.sandbox(other).__aenter__()
    elsewhere = Rule(host="web.example.com", inject={"secret": "crm"})
    async with house.sandbox(rule(), image="data") as sandbox:
        with pytest.raises(PolicyError, match=r"network\[1\]: the secret crm is not for web.example.com"):
            await sandbox.set_network([rule(), elsewhere])
        assert (await sandbox.commands.run(SENT_BACK, timeout=30)).ok  # as it was
        file = Path(store.directory / "crm")
        file.chmod(0o644)
        try:
            with pytest.raises(PolicyError, match="in a file that others can use") as refused:
                await sandbox.set_network([rule(redact=True)])
        finally:
            file.chmod(0o600)
        assert not seen_in(str(refused.value))
    assert {visit.said.count(b"GET ") for visit in world.canaries[PUBLIC[0], 443].visits} == {1}


async def test_one_that_is_stored_anew_reaches_a_live_sandbox_with_its_next_rules(
    house: House, store: Files, world: World
) -> None:
    async with AsyncSandbox(
        Policy(image="data", network=(rule(),)), opener=Conversation(house.manager, "carl", "x")
    ) as sandbox:
        assert CANARY in (await sandbox.commands.run(SENT_BACK, timeout=30)).text
        store.write(Entry(name="crm", hosts=(HOST,), tenant="carl"), SecretStr("newer-one"))
        await sandbox.set_network([rule()])
        assert "newer-one" in (await sandbox.commands.run(SENT_BACK, timeout=30)).text
        store.remove("crm", Owner("carl"))
