"""Every attempt where names are allowed, and where services are lent, succeeds when it is aimed at what is: so its failure elsewhere proves
something."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dayfly.cli.proving import Here
from dayfly.client.sandbox import AsyncSandbox
from dayfly.network import PACKAGES_HOST
from dayfly.network.objects import OBJECTS_HOST
from dayfly.prove import ALL, Place, Probe, Verdict
from dayfly.prove.services import API, BUCKET, HOSTS, PACKAGE, PREFIX, WHEEL
from dayfly.prove.trials import Outcome, try_all
from dayfly.prove.world import LISTED, RAW, TCP, TLS, World, world
from tests.prove.mutants import POLICY

pytestmark = pytest.mark.gvisor

NAMED = [probe for probe in ALL if probe.place is Place.NAMED and probe.expected == "denied"]
SUPPLIED = [
    probe
    for probe in ALL
    if probe.place is Place.SUPPLIED and probe.expected == "denied" and probe.attempt != "doors.sent_back"
]
"""What is sent back has mutants: of what is allowed nothing may be learnt there."""

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


def aimed_at_a_service(probe: Probe) -> Probe:
    """The same at what is lent."""
    owns: Mapping[str, Mapping[str, Any]] = {
        OBJECTS_HOST: {"requests": [["GET", f"/{BUCKET}/{PREFIX}a.txt"]]},
        API: {"requests": [["GET", "/v1/mine/page"]], "port": 443, "tls": True},
        PACKAGES_HOST: {"requests": [["GET", f"/python/files/{PACKAGE}/{WHEEL}"]]},
    }
    if probe.attempt == "leaks.value_anywhere":
        changed: Mapping[str, Any] = {"reversed_value": "python3"[::-1]}
    elif probe.attempt == "leaks.value_in_files":
        changed = {"reversed_value": "root:"[::-1]}
    else:
        host = probe.arguments["host"] if probe.arguments["host"] in owns else API
        changed = {"host": host, **owns[host]}
    if probe.arguments.get("door") == "absolute":
        changed = {"requests": [["GET", f"http://{OBJECTS_HOST}/{BUCKET}/{PREFIX}a.txt"]]}
    return replace(probe, arguments={**probe.arguments, **changed}, asks=HOSTS)


def tried(probes: list[Probe], opened: Callable[[Here, World], AsyncSandbox]) -> dict[str, Outcome]:
    async def carried_out() -> list[Outcome]:
        async with (
            world(secrets.token_hex(16)) as elsewhere,
            Here(POLICY) as ground,
            opened(ground, elsewhere) as sandbox,
        ):
            return await try_all(sandbox, elsewhere, probes, lambda outcome: None)

    return {outcome.probe.id: outcome for outcome in asyncio.run(carried_out())}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    named = tried([aimed(probe) for probe in NAMED], Here.named)
    return named | tried([aimed_at_a_service(probe) for probe in SUPPLIED], Here.supplied)


@pytest.mark.parametrize("probe", [probe.id for probe in (*NAMED, *SUPPLIED)])
def test_it_succeeds_where_it_may(probe: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[probe].judgement.verdict is Verdict.REACHED, outcomes[probe].judgement.why
