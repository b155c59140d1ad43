"""The ground of a proof on this machine: sandboxes as production has them, but for what would change something elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dayfly.cli.proving import Here
from dayfly.network import Rule
from dayfly.paths import Paths
from dayfly.policy import Policy, parse_policy
from dayfly.prove import RULES

BUCKET = {"bucket": "lake", "prefix": "in/", "endpoint": "https://store.example.com", "credentials": "lake"}
POLICY = parse_policy(
    {
        "image": "python",
        "limits": {"memory": "256MiB"},
        "network": [{"host": "api.example.com"}],
        "inputs": [BUCKET],
        "outputs": [{**BUCKET, "prefix": "out/"}],
    }
)


@pytest.mark.parametrize("network", ["none", RULES])
def test_it_has_the_policy_but_copies_nothing_in_or_out(network: str | tuple[Rule, ...]) -> None:
    made = Here(POLICY)._with(network)
    assert made.limits == POLICY.limits
    assert made.image == "python"
    assert (made.network, made.inputs, made.outputs) == (network, (), ())


def test_what_is_missing_is_red_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYFLY_RUNSC", "/nowhere/runsc")
    empty = Here(Policy(image="python"), Paths(tmp_path, tmp_path / "run"))
    found = {one.name: one for one in empty.conditions()}
    assert (found["runsc"].state, found["image"].state) == ("red", "red")
    assert found["image"].remedy == "dayfly images build python"


def test_an_image_tells_its_age() -> None:
    found = {one.name: one for one in Here(Policy(image="python")).conditions()}["image"]
    assert found.value.startswith("python (sha256:")
    assert found.value.endswith("days old")


def test_without_the_servers_libraries_the_rest_can_be_proven() -> None:
    """Whoever has installed dayfly alone has no server to prove, and reads so in the rows that are about one."""
    code = "import sys; sys.modules.update(dict.fromkeys(('cryptography', 'fastapi', 'uvicorn', 'botocore'))); import dayfly.cli.proving, dayfly.cli.prove; print('ok')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "ok\n", done.stderr
