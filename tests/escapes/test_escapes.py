"""Every wall, attacked from inside a sandbox made with the defaults, and again with that wall missing.

An attack that fails in the sandbox proves something only because it succeeds where the wall is not (its control).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from dayfly import Sandbox
from tests.escapes.baiting import Bait, bait
from tests.escapes.unwalled import Missing, run
from tests.machine import image

ATTACKS = Path(__file__).parent / "attacks"
INSIDE = Missing(env={"CONTROL": "1"})  # the attack itself opens the door it then goes through
AS_ROOT = Missing(root=True)

CONTROLS = {
    "addresses": INSIDE,
    "descriptors": Missing(shell='exec 7</etc/passwd; exec python3 "$0"'),
    "devices": INSIDE,
    "host_file": Missing(),  # with the bait's directory bound in
    "host_process": Missing(shell='sh -c "read x" "$NONCE" </dev/zero & python3 "$0"; kill $!'),
    "host_socket": INSIDE,
    "host_tcp": Missing(network="host"),
    "host_udp": Missing(network="host"),
    "identity": INSIDE,
    "interfaces": INSIDE,
    "kernel_doors": INSIDE,
    "listeners": INSIDE,
    "mount_table": Missing(env={"HOST_PATHS": "/proc"}),
    "mounting": AS_ROOT,
    "names": INSIDE,
    "other_memory": INSIDE,
    "privileges": AS_ROOT,
    "secret_files": INSIDE,
    "secrets_in_memory": Missing(),  # with the secret in the environment
    "system_writes": INSIDE,
    "unlimited": Missing(),
}
"""For every attack, where it must succeed."""

SECRET = f"secret{secrets.token_hex(12)}"


@pytest.fixture(scope="module")
def prey() -> Iterator[Bait]:
    with bait() as found:
        found.env["SECRET_SHAPE"] = SECRET[::-1]
        yield found


@pytest.fixture(scope="module")
def sandbox(prey: Bait) -> Iterator[Sandbox]:
    os.environ["DEPLOY_TOKEN"] = SECRET  # what a host process has lying about
    try:
        with Sandbox() as opened:
            for path in ATTACKS.glob("*.py"):
                opened.files.upload(path, f"attacks/{path.name}")
            yield opened
    finally:
        del os.environ["DEPLOY_TOKEN"]


def verdict(line: str) -> list[str]:
    claim = json.loads(line)
    assert claim["tried"] > 0, "an attack that tried nothing proves nothing"
    return claim["reached"]


@pytest.mark.parametrize("attack", sorted(CONTROLS))
def test_is_denied_in_a_sandbox_made_with_the_defaults(attack: str, sandbox: Sandbox, prey: Bait) -> None:
    prey.visits.clear()
    done = sandbox.commands.run(["python3", f"attacks/{attack}.py"], env=prey.env, timeout=60)
    assert done.ok, done
    assert verdict(done.text) == []
    assert prey.visits == []


@pytest.mark.parametrize("attack", sorted(CONTROLS))
def test_succeeds_where_the_wall_is_missing(attack: str, prey: Bait) -> None:
    missing = CONTROLS[attack]
    if attack == "host_file":
        missing = Missing(binds=[prey.directory])
    if attack == "secrets_in_memory":
        missing = Missing(env={"LEAKED": SECRET})
    prey.visits.clear()
    assert verdict(run(ATTACKS / f"{attack}.py", missing, prey.env)) != []
    if missing.network == "host":
        assert prey.visits, "the host's own count must see what got through"


def test_a_control_leaves_the_image_as_it_is(tmp_path: Path) -> None:
    """It is the user's own. ``tmp_path`` is not in it, so a mount point is needed there."""
    rootfs = image("data").rootfs
    before = entries(rootfs)
    assert str(rootfs / tmp_path.relative_to("/")) not in before
    run(ATTACKS / "identity.py", Missing(env={"CONTROL": "1"}, binds=[tmp_path]), {})
    assert entries(rootfs) == before


def entries(directory: Path) -> set[str]:
    return {f"{where}/{name}" for where, below, files in os.walk(directory) for name in (*below, *files)}


def test_every_attack_has_a_control() -> None:
    assert {path.stem for path in ATTACKS.glob("*.py")} - {"verdict"} == set(CONTROLS)


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


def test_what_one_sandbox_leaves_is_not_in_the_next_one_nor_in_the_image(prey: Bait) -> None:
    places = ["/tmp", "/var/tmp", "/home/user", "/dev/shm", "/home/user/.cache", "/home/user/.local/lib"]
    plant = f"import os\nfor p in {places}:\n os.makedirs(p, exist_ok=True); open(p + '/{prey.nonce}', 'w').write('x')"
    look = f"import glob, json\nprint(json.dumps([p for p in {places} if glob.glob(p + '/{prey.nonce}')]))"
    with Sandbox() as first:
        assert first.run_code(plant).ok
        assert json.loads(first.run_code(look).stdout) == places, "the control: it is found where it was left"
        with Sandbox() as second:
            assert json.loads(second.run_code(look).stdout) == []
    with Sandbox() as third:
        assert json.loads(third.run_code(look).stdout) == []
