"""Every wall of a closed sandbox, attacked from inside, and again with that wall missing.

The attempts are those of ``dayfly prove``. One that fails in the sandbox proves something only because it succeeds where the wall is not (its
control).
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dayfly import Sandbox
from dayfly.client.sandbox import AsyncSandbox
from dayfly.prove import ALL, Place, Property, Verdict
from dayfly.prove.bait import bait
from dayfly.prove.trials import Outcome, examine, try_all
from tests.escapes.controls import CONTROLS, all_attempted
from tests.escapes.unwalled import Missing, run
from tests.machine import image

CLOSED = [probe for probe in ALL if probe.place is Place.CLOSED]
OUTSIDE = [probe for probe in ALL if probe.place is Place.OUTSIDE]
DENIED = [probe.id for probe in CLOSED if probe.property is not Property.USEFUL]
USEFUL = [probe.id for probe in CLOSED if probe.property is Property.USEFUL]

SECRET = f"secret{secrets.token_hex(12)}"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Of everything that is tried in a closed sandbox made with the defaults, and looked at while it is alive."""
    os.environ["DEPLOY_TOKEN"] = SECRET  # what a host process has lying about
    try:
        return {outcome.probe.id: outcome for outcome in asyncio.run(_all_tried())}
    finally:
        del os.environ["DEPLOY_TOKEN"]


async def _all_tried() -> list[Outcome]:
    async with bait(("/var/lib/", str(Path.home()))) as prey, AsyncSandbox() as sandbox:
        prey.marks["secret_reversed"] = SECRET[::-1]
        tried = await try_all(sandbox, prey, CLOSED, lambda outcome: None)
        return [*tried, *examine(sandbox, OUTSIDE, lambda outcome: None)]


@pytest.mark.parametrize("probe", [*DENIED, *(probe.id for probe in OUTSIDE)])
def test_is_denied_in_a_sandbox_made_with_the_defaults(probe: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[probe].judgement.verdict is Verdict.DENIED, outcomes[probe].judgement.why


@pytest.mark.parametrize("probe", USEFUL)
def test_what_must_work_works(probe: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[probe].judgement.green, outcomes[probe].judgement.why


@pytest.fixture(scope="module")
def unwalled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("attacks")
    directory.chmod(0o755)
    (directory / "routes").write_text("Iface Destination\neth0 00000000 0102030A\n")
    (directory / "resolvers").write_text("nameserver 10.0.0.2\n")
    (directory / "canary").write_text(SECRET)
    marks = {
        "nonce": f"nonce{secrets.token_hex(12)}",
        "directory": "/attacks",
        "canary_file": "/attacks/canary",
        "host_paths": [],
        "host_pid": 1,
        "tcp_port": 1,
        "udp_port": 1,
        "secret": SECRET,
        "secret_reversed": SECRET[::-1],
    }
    return all_attempted([probe for probe in CLOSED if probe.id in DENIED], marks, directory)


@pytest.mark.parametrize("probe", DENIED)
def test_succeeds_where_the_wall_is_missing(probe: str, unwalled: dict[str, dict[str, Any]]) -> None:
    row = unwalled[probe]
    assert row.get("reached"), row


def test_a_control_leaves_the_image_as_it_is(tmp_path: Path) -> None:
    """It is the user's own. ``tmp_path`` is not in it, so a mount point is needed there."""
    rootfs = image("data").rootfs
    before = entries(rootfs)
    assert str(rootfs / tmp_path.relative_to("/")) not in before
    tmp_path.chmod(0o755)
    (tmp_path / "attack.py").write_text("print('here')")
    assert run(tmp_path / "attack.py", Missing(binds=[tmp_path]), {}) == "here\n"
    assert entries(rootfs) == before


def entries(directory: Path) -> set[str]:
    return {f"{where}/{name}" for where, below, files in os.walk(directory) for name in (*below, *files)}


def test_every_attempt_has_a_control() -> None:
    assert {probe.attempt for probe in CLOSED if probe.id in DENIED} == set(CONTROLS)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def test_a_kernel_holds_no_descriptor_but_its_own(sandbox: Sandbox) -> None:
    done = sandbox.run_code(
        "import json, os\n"
        "kinds = {}\n"
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try: kinds[name] = os.readlink('/proc/self/fd/' + name)\n"
        "    except OSError: pass\n"
        "print(json.dumps(kinds))"
    )
    kinds = {int(name): target for name, target in json.loads(done.stdout).items()}
    beyond = {target for number, target in kinds.items() if number > 2} - {kinds[1], kinds[2]}
    assert len(beyond) <= 1, kinds
    assert all(target.startswith("socket:") for target in beyond), kinds


def test_what_one_sandbox_leaves_is_not_in_the_next_one_nor_in_the_image() -> None:
    nonce = f"nonce{secrets.token_hex(12)}"
    places = ["/tmp", "/var/tmp", "/home/user", "/dev/shm", "/home/user/.cache", "/home/user/.local/lib"]
    plant = f"import os\nfor p in {places}:\n os.makedirs(p, exist_ok=True); open(p + '/{nonce}', 'w').write('x')"
    look = f"import glob, json\nprint(json.dumps([p for p in {places} if glob.glob(p + '/{nonce}')]))"
    with Sandbox() as first:
        assert first.run_code(plant).ok
        assert json.loads(first.run_code(look).stdout) == places, "the control: it is found where it was left"
        with Sandbox() as second:
            assert json.loads(second.run_code(look).stdout) == []
    with Sandbox() as third:
        assert json.loads(third.run_code(look).stdout) == []
