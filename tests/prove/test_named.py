"""Every attempt where names are allowed succeeds when it is aimed at a name that is: so its failure elsewhere proves something."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dayfly.cli.proving import Here
from dayfly.prove import ALL, Place, Probe, Verdict
from dayfly.prove.trials import Outcome, try_all
from dayfly.prove.world import LISTED, RAW, TCP, TLS, world
from tests.prove.mutants import POLICY

pytestmark = pytest.mark.gvisor

NAMED = [probe for probe in ALL if probe.place is Place.NAMED and probe.expected == "denied"]

OTHER_DOORS = {
    "bind": "socks",
    "associate": "socks",
    "old socks": "socks",
    "socks address": "socks",
    "lower case": "connect",
}
"""What others have, and dayfly has not, whatever is asked for: a door that is there."""


def aimed(probe: Probe) -> Probe:
    """The same at what is allowed."""
    door = probe.arguments.get("door", "name")
    changed: Mapping[str, Mapping[str, Any]] = {
        "doors.connected": {"hosts": [RAW], "port": TCP, "door": OTHER_DOORS.get(door, door)},
        "doors.fetched": {
            "hosts": [LISTED],
            "path": "/",
            "method": "GET",
            "host_field": None,
            "fields": "",
            "door": OTHER_DOORS.get(door, door),
        },
        "doors.after_an_allowed_one": {"host": LISTED, "least": 1},  # our proxy answers one request of each connection
        "doors.handshakes": {"names": [TLS]},
        "doors.spoken": {"hosts": [RAW], "port": TCP},
        "doors.looked_up": {"names": [LISTED]},
        "network.queried": {"servers": [["127.0.0.1", 53]], "name": LISTED},
        "network.many_tcp": {"places": [[RAW, TCP]]},
    }
    return replace(probe, arguments={**probe.arguments, **changed[probe.attempt]}, asks=(LISTED, RAW, TLS))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    async def tried() -> list[Outcome]:
        async with (
            world(secrets.token_hex(16)) as elsewhere,
            Here(POLICY) as ground,
            ground.named(elsewhere) as sandbox,
        ):
            return await try_all(sandbox, elsewhere, [aimed(probe) for probe in NAMED], lambda outcome: None)

    return {outcome.probe.id: outcome for outcome in asyncio.run(tried())}


@pytest.mark.parametrize("probe", [probe.id for probe in NAMED])
def test_it_succeeds_where_it_may(probe: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[probe].judgement.verdict is Verdict.REACHED, outcomes[probe].judgement.why
