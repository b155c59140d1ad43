"""The authority that programs inside believe, over lives: it comes with rules that look inside of TLS, and goes with them."""

from __future__ import annotations

import pytest

from dayfly.manager import Template
from dayfly.network import Rule
from dayfly.policy import Policy
from tests.network.test_lives import cell, opened
from tests.network.world import House, World

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="session")]

LOOKED = Rule(host="api.example.com", methods=["GET"])
PASSED = Rule(host="api.example.com")

FETCH = """
import urllib.error, urllib.request
try: print(urllib.request.urlopen("https://api.example.com/page", timeout=20).read().decode())
except urllib.error.URLError as error: print(error.reason.verify_message)
"""
PAGE, NOBODY = "api.example.com /page\n", "self-signed certificate\n"

WHO = "print(open('/run/dayfly/authority.crt').read())"
KNOWN = "import os; print(os.environ.get('SSL_CERT_FILE'))"


async def test_a_live_kernel_believes_while_a_rule_looks_inside(home: House, world: World) -> None:
    life = await opened(home, PASSED)
    assert (await cell(life, FETCH)).stdout == NOBODY, "the server's own certificate, which nobody inside knows"
    for _ in range(2):
        await life.set_network((LOOKED,), home.outlet)
        assert (await cell(life, FETCH)).stdout == PAGE
        for rules in ((PASSED,), ()):
            await life.set_network(rules, home.outlet)
            assert (await cell(life, KNOWN + "\n" + WHO)).stdout == "None\n\n"
        await life.set_network((PASSED,), home.outlet)
        assert (await cell(life, FETCH)).stdout == NOBODY
    await life.close()


async def test_forks_and_those_that_were_paused_have_authorities_of_their_own(home: House, world: World) -> None:
    life = await opened(home, LOOKED)
    seen = [(await cell(life, FETCH + WHO)).stdout]
    (copy,) = await home.manager.fork(life.id)
    await home.manager.pause(life.id)
    for one in (copy, await home.manager.resume(life.id)):
        seen.append((await cell(one, FETCH + WHO)).stdout)
        await one.close()
    assert all(one.startswith(PAGE) for one in seen)
    assert len(set(seen)) == 3, "no two of them are the same"


async def test_a_spare_believes_for_whoever_claims_it(world: World) -> None:
    async with world.house() as house:
        spares = house.manager.keep(Template("python", Policy(image="tiny", network=(PASSED,)), preload=("ssl",)))
        await spares.full()
        ready = {spare.id for _, spare in spares._ready}
        life = await opened(house, LOOKED)
        assert {life.id} == ready, "it is the spare"
        assert (await cell(life, FETCH)).stdout == PAGE
        await life.close()
