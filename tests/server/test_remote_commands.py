"""``dayfly stop``, ``usage`` and ``templates`` against a server that runs."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.server.house import TINY
from tests.server.test_serve import dayfly, environment, here, new_key, serving, with_key

__all__ = ["environment"]


def test_a_tenant_sees_what_it_uses_and_ends_what_it_has(environment: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "dayfly.toml"
    config.write_text(
        "[tenants.anna]\nsandboxes = 7\ncpu_seconds_per_day = 36000\n[templates.small]\npolicy = {image = 'python'}\nspares = 0\n"
    )
    anna, bert = (new_key(environment, tenant) for tenant in ("anna", "bert"))
    with (
        serving(environment, "--config", str(config)) as (_, url),
        httpx.Client(base_url=url, headers=with_key(anna), timeout=60) as client,
    ):
        made = client.post("/v1/sandboxes", json={"policy": TINY}).json()["id"]
        mine = {**environment, "DAYFLY_URL": url, "DAYFLY_API_KEY": anna}
        other = {**mine, "DAYFLY_API_KEY": bert}
        used = json.loads(dayfly(mine, "usage", "--json").stdout)
        assert (used["sandboxes"], used["allowed"]["sandboxes"]) == (1, 7)
        assert "36,000" in here(mine, "usage").stdout
        assert json.loads(here(other, "usage", "--json").stdout)["sandboxes"] == 0
        assert json.loads(here(mine, "templates", "--json").stdout) == [
            {"name": "small", "image": "python", "spares": 0, "ready": 0}
        ]
        refused = here(other, "stop", made)
        assert (refused.returncode, "no sandbox" in refused.stderr) == (2, True)
        assert client.get(f"/v1/sandboxes/{made}").json()["state"] == "ready"
        assert dayfly(mine, "stop", made).returncode == 0
        assert client.get(f"/v1/sandboxes/{made}").json()["end_reason"] == "stopped"
        assert here({**mine, "DAYFLY_API_KEY": "dfk_x_y"}, "usage").returncode != 0
    gone = dayfly(mine, "usage")
    assert (gone.returncode, "Traceback" in gone.stderr, anna in gone.stderr) == (4, False, False)
    assert here(environment, "usage").returncode == 2
