"""Rules that look at requests, with a secret that never comes in: real sandboxes, real clients, the real gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.errors import PolicyError
from dayfly.indexes import MachineIndexes
from dayfly.manager.means import MachineMeans
from dayfly.network import Rule
from dayfly.secrets import Environment, Files, Ring, Vault
from tests.network.journal import Heard
from tests.network.search import places_of
from tests.network.world import EVIL, House, World, python

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

VALUE = "canary-4711-never-inside"
API = Rule(host="api.example.com", methods=["GET", "POST"], paths=["/v1/*"], inject={"secret": "crm", "into": "bearer"})
PLAIN = Rule(host="web.example.com", ports=[80], protocol="http", paths=["/page"])

FETCHES = {
    "curl": "curl -sS https://api.example.com/v1/page",
    "urllib": "python3 -c \"import urllib.request as u; print(u.urlopen('https://api.example.com/v1/page').read())\"",
    "requests": "python3 -c \"import requests; print(requests.get('https://api.example.com/v1/page').text)\"",
    "httpx": "python3 -c \"import httpx; print(httpx.get('https://api.example.com/v1/page').text)\"",
    "node": "node -e \"fetch('https://api.example.com/v1/page').then(r => r.text()).then(console.log)\"",
    "git": "git ls-remote https://api.example.com/v1/repo.git",
    "curl connect": "curl -sS -x http://127.0.0.1:3128 https://api.example.com/v1/page",
    "curl socks": "curl -sS -x socks5h://127.0.0.1:1080 https://api.example.com/v1/page",
}  # fmt: skip


class Means(MachineMeans):
    """Of a store that has one secret, for one host."""

    def __init__(self, directory: Path, value: str = VALUE, host: str = "api.example.com") -> None:
        settings = {"DAYFLY_SECRET_CRM": value, "DAYFLY_SECRET_CRM__HOSTS": host}
        super().__init__(Vault(Files(directory), Environment(settings), Ring()), MachineIndexes(dict))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keeping(earth: World, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with earth.house(means=Means(tmp_path_factory.mktemp("secrets"))) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def box(keeping: House) -> AsyncIterator[AsyncSandbox]:
    async with keeping.sandbox(API, PLAIN, image="data") as made:
        yield made


@pytest.mark.parametrize("client", FETCHES)
async def test_a_client_as_it_is_calls_an_api_whose_key_it_never_sees(
    box: AsyncSandbox, world: World, client: str
) -> None:
    done = await box.commands.run(FETCHES[client], timeout=30)
    assert done.ok, done.stderr
    assert done.denied == ()
    assert f"authorization: bearer {VALUE}" in world.heard().lower()
    assert VALUE not in done.text + done.stderr.decode()


@pytest.mark.parametrize(
    ("curl", "code"),
    [
        ("https://api.example.com/v2/page", "request_not_listed"),
        ("-X DELETE https://api.example.com/v1/page", "request_not_listed"),
        ("--path-as-is https://api.example.com/v1/../v2/page", "bad_request"),
        ("--path-as-is https://api.example.com/v1/%2e%2e/v2/page", "bad_request"),
        (f"-H 'Host: {EVIL}' https://api.example.com/v1/page", "host_mismatch"),
        (
            "-H 'Transfer-Encoding: chunked' -H 'Content-Length: 3' -d abc https://api.example.com/v1/page",
            "bad_request",
        ),
        ("http://web.example.com/other", "request_not_listed"),
    ],
)
async def test_what_the_rule_does_not_say_is_answered_with_the_reason(
    box: AsyncSandbox, world: World, curl: str, code: str
) -> None:
    done = await box.commands.run(
        f"curl -sS -o body -w '%{{http_code}} %header{{x-dayfly-denied}}' {curl}; cat body", timeout=30
    )
    assert done.text.startswith((f"403 {code}", f"400 {code}")), done
    assert [one.code for one in done.denied] == [code]
    assert done.denied[0].reason in done.text
    assert not world.visited()
    assert not world.names.asked


async def test_what_a_server_forbids_is_not_taken_for_a_denial(box: AsyncSandbox, world: World) -> None:
    done = await box.commands.run("curl -sS -i https://api.example.com/v1/forbidden", timeout=30)
    assert done.text.startswith("HTTP/1.1 403 Forbidden"), done
    assert "x-dayfly" not in done.text.lower()
    assert "/v1/forbidden" in done.text
    assert done.denied == ()
    assert world.visited()


async def test_a_handshake_for_another_name_reaches_nobody(box: AsyncSandbox, world: World) -> None:
    done = await python(
        box,
        "import ssl\n"
        "context = ssl.create_default_context()\n"
        "context.check_hostname = False; context.verify_mode = ssl.CERT_NONE\n"
        f"context.wrap_socket(connect('api.example.com', 443), server_hostname={EVIL!r})",
    )
    assert not done.ok
    assert [one.code for one in done.denied] == ["sni_mismatch"]
    assert not world.visited()


async def test_the_secret_is_nowhere_inside(box: AsyncSandbox, world: World) -> None:
    assert (await box.commands.run(FETCHES["curl"], timeout=30)).ok
    assert VALUE in world.heard().lower(), "it was used"
    assert await places_of(box, VALUE) == []


async def test_what_the_code_sends_in_the_secrets_place_does_not_go_out(box: AsyncSandbox, world: World) -> None:
    done = await box.commands.run(
        "curl -sS -H 'Authorization: Bearer mine' https://api.example.com/v1/page", timeout=30
    )
    assert done.ok
    assert "bearer mine" not in world.heard().lower()
    assert f"authorization: bearer {VALUE}" in world.heard().lower()


async def test_every_use_is_written_down(keeping: House, world: World, tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    async with keeping.sandbox(API, image="data") as sandbox:
        keeping.manager._life(sandbox.id).keep_record(heard.record(sandbox.id))
        for path in ("v1/page", "v1/page", "v2/page"):
            await sandbox.commands.run(f"curl -sS https://api.example.com/{path}", timeout=30)
    rows = heard.of("egress.request")
    assert {(row["path"], row["status"], row["secret"], row["code"]) for row in rows} == {
        ("/v1/page", 200, "crm", None),
        ("/v2/page", 403, None, "request_not_listed"),
    }
    assert sum(row["count"] for row in rows) == 3
    assert heard.has("api.example.com"), "the control"
    assert not heard.has(VALUE)


async def test_without_the_secret_there_is_no_sandbox_with_that_rule(earth: World, tmp_path: Path) -> None:
    async with earth.house(means=Means(tmp_path, host="other.example.com")) as house:
        with pytest.raises(PolicyError, match=r"the secret crm is not for api\.example\.com"):
            await house.sandbox(API).__aenter__()


async def test_other_rules_on_a_live_sandbox(keeping: House, world: World) -> None:
    """The authority comes and goes with the rules that need it, and a gateway that is started anew has the same one."""
    async with keeping.believing(Rule(host="api.example.com"), image="data") as sandbox:
        passed = "curl -sS --cacert ca.pem https://api.example.com/v2/page"
        assert (await sandbox.commands.run(passed, timeout=30)).ok
        await sandbox.set_network([API])
        assert (await sandbox.commands.run(FETCHES["requests"], timeout=30)).ok
        assert not (await sandbox.commands.run(passed, timeout=30)).ok
        await keeping.gateways[-1].close()
        assert (await sandbox.commands.run(FETCHES["node"], timeout=30)).ok
        await sandbox.set_network([Rule(host="api.example.com")])
        assert not (await sandbox.commands.run(FETCHES["requests"], timeout=30)).ok
        assert (await sandbox.commands.run(passed, timeout=30)).ok
