"""What ``dayfly serve`` puts together: caps that are the tenants' own, and spares that are nobody's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dayfly.cli.composing import gvisor_of, tenants_of
from dayfly.errors import AdmissionRefused
from dayfly.policy import Policy
from dayfly.server import Places, load_configuration
from tests.machine import furnished_directory, image

CONFIG = """
data = "{data}"
[default_caps]
sandboxes = 0
[tenants.anna]
sandboxes = 1
[templates.small]
policy = {{ image = "python" }}
preload = ["json"]
"""


async def test_spares_are_kept_whatever_the_caps_and_claimed_by_who_may(tmp_path: Path) -> None:
    image("python")
    with furnished_directory() as data:
        file = tmp_path / "dayfly.toml"
        file.write_text(CONFIG.format(data=data))
        configuration = load_configuration(file)
        places = Places.of(configuration)
        tenants = tenants_of(configuration, places, gvisor_of(configuration, places))
        try:
            (spares,) = tenants._manager._spares.values()
            async with asyncio.timeout(60):
                await spares.full()
            assert tenants.ready == {"small": 1}
            with pytest.raises(AdmissionRefused):
                await tenants.create("bert", Policy(image="python"), template="small")
            assert tenants.ready == {"small": 1}
            mine = await tenants.create("anna", Policy(image="python"), template="small")
            assert tenants.ready == {"small": 0}
            own = {"In", "Out", "exit", "quit", "get_ipython", "open"}  # what a notebook begins with
            left = await mine.life.execute(f"sorted(n for n in set(dir()) - {own} if n[0] != '_')")
            assert left.text == "[]", "warming leaves no name behind"
        finally:
            await tenants.close()
        assert list((data / "snapshots").iterdir()) == []
