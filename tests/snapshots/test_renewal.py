"""Restores of one snapshot draw nothing alike, unless a fork is to keep what code had seeded."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from dayfly.sandbox import Life
from dayfly.sandbox.snapshot import Suspended
from dayfly.spec import Execution
from tests.snapshots.conftest import House

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

WARM = """
import json, multiprocessing, os, random, secrets, socket, ssl, tempfile, uuid, numpy
random.seed(1); numpy.random.seed(1)
def draw():
    names = tempfile._get_candidate_names()
    return {
        "random": random.random(),
        "numpy": float(numpy.random.random()),
        "openssl": ssl.RAND_bytes(8).hex(),
        "temporary name": next(names),
        "node of uuid1": uuid.getnode(),
        "authkey": multiprocessing.current_process().authkey.hex(),
        "uuid1": str(uuid.uuid1()),
        "uuid4": str(uuid.uuid4()),
        "secrets": secrets.token_hex(8),
        "system": os.urandom(8).hex(),
        "machine id": open("/etc/machine-id").read(),
        "hostname": socket.gethostname(),
        "hostname's file": open("/etc/hostname").read(),
    }
draw()
"""
"""Everything is loaded, and has been drawn from, before the snapshot."""

ONLY_BY_RENEWAL = {"random", "numpy", "openssl", "temporary name", "node of uuid1", "authkey"}
"""What two restores that are not renewed agree on."""

NODE = "JSON.stringify([require('crypto').randomBytes(8).toString('hex'), Math.random()])"


async def ran(life: Life, code: str, language: str = "python") -> Execution:
    done = await life.execute(code, language=language)
    assert done.error is None, done.error
    return done


async def drawn(life: Life) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((await ran(life, "print(json.dumps(draw()))")).stdout)
    return found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def warmed(house: House) -> Suspended:
    """A template: Python has drawn from everything, and a JavaScript kernel waits that has run nothing."""
    async with house.life(prestart=("python", "javascript")) as life:
        await ran(life, WARM)
        return await life.suspend(house.new_directory())


@pytest.mark.parametrize("restores", [4, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
async def test_no_two_restores_of_a_template_draw_alike(house: House, warmed: Suspended, restores: int) -> None:
    seen: list[dict[str, Any]] = []
    for number in range(restores):
        async with house.restored(warmed, f"box-{number}") as life:
            found = await drawn(life)
            found["crypto of node"], found["Math.random"] = json.loads((await ran(life, NODE, "javascript")).text[1:-1])
            assert life.renewed is not None
            assert set(life.renewed.kept) <= {"hostname"}
            if "hostname" in life.renewed.kept:  # docs/hosts.md says of which gVisor
                del found["hostname"]
            seen.append(found)
    for what in seen[0]:
        values = [one[what] for one in seen]
        assert len(set(values)) == restores, (what, values)


async def test_without_renewal_restores_agree(house: House, warmed: Suspended) -> None:
    """The control: it is the renewal that makes the difference."""
    seen: list[dict[str, Any]] = []
    for _ in range(2):
        spec = house.spec("same")
        cell = await house.boundary.restore(warmed.snapshot, spec)
        life = Life(cell, spec, house.policy, warmed.bookmark)
        try:
            await life._link.resume()
            seen.append(await drawn(life))
        finally:
            await life.close()
    one, other = seen
    assert {what for what in ONLY_BY_RENEWAL if one[what] == other[what]} == ONLY_BY_RENEWAL
    assert one["uuid4"] != other["uuid4"]


async def test_a_fork_keeps_what_code_had_seeded_and_says_so(house: House) -> None:
    seen: list[dict[str, Any]] = []
    async with house.life() as life:
        await ran(life, WARM)
        suspended = await life.snapshot(house.new_directory())
        original = await drawn(life)
        for number in range(2):
            async with house.restored(suspended, f"box-{number}", keep_seeds=True) as fork:
                seen.append(await drawn(fork))
                assert fork.renewed is not None
                assert {"python: random", "python: numpy.random"} <= set(fork.renewed.kept)
    for found in seen:
        assert (found["random"], found["numpy"]) == (original["random"], original["numpy"])
    everyone = [original, *seen]
    for what in ("openssl", "temporary name", "uuid4", "secrets", "machine id"):
        assert len({one[what] for one in everyone}) == 3, what


async def test_a_renewal_goes_on_past_what_code_has_broken(house: House) -> None:
    async with house.life() as life:
        await ran(life, f"{WARM}\nrandom.seed = None\ndef broken(*a): raise SystemExit\nnumpy.random.seed = broken")
        suspended = await life.snapshot(house.new_directory())
    async with house.restored(suspended) as other:
        assert other.renewed is not None
        assert {"python: random", "python: numpy.random"} <= set(other.renewed.kept)
        assert {"python: ssl", "python: tempfile"} <= set(other.renewed.renewed)
        assert (await ran(other, "6 * 7")).text == "42"


async def test_a_kernel_that_claims_a_renewal_nobody_asked_for_is_lost_alone(house: House) -> None:
    code = """
import json, os, stat
record = json.dumps({"renewed": ["all"], "kept": []}).encode()
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        if fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.write(fd, len(record).to_bytes(4, "big") + record)
    except OSError: pass
"""
    async with house.life() as life:
        done = await life.execute(code)
        assert not done.state_survived
        assert (await ran(life, "6 * 7")).text == "42"
