"""A zone of the operator's: its name server sees who asks, or says that it would see nobody."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dayfly.cli.proving import Here
from dayfly.errors import HostError, InputError
from dayfly.prove import Place, Proof, Verdict, chosen, prove
from dayfly.prove import canary as module
from dayfly.prove.canary import Canary, by_this_machine, canary, domain_of
from tests.prove.mutants import POLICY, host_network

ZONE = "canary.example"
PROBES = [probe for probe in chosen(zone=True) if probe.place in (Place.DELEGATED, Place.DELEGATED_NAMED)]


def question(name: str) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", 7, 256, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)


async def ask(place: tuple[str, int], said: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.setblocking(False)
        asker.connect(place)
        asker.send(said)
        return await asyncio.get_running_loop().sock_recv(asker, 512)


@asynccontextmanager
async def delegated() -> AsyncIterator[Canary]:
    """One that the world's resolvers would ask, were there any here: this machine's question goes there itself."""

    async def by_the_world(name: str) -> None:
        await ask(made.place, question(name.upper()))

    async with canary(ZONE, "127.0.0.1", 0, by_the_world) as made:
        yield made


class Delegated(Here):
    @asynccontextmanager
    async def zone(self) -> AsyncIterator[Canary]:
        async with delegated() as made:
            yield made


def proved(ground: Here) -> Proof:
    async def carried_out() -> Proof:
        async with ground as made:
            return await prove(made, PROBES, chosen="quick")

    return asyncio.run(carried_out())


@pytest.mark.gvisor
def test_nobody_inside_asks_for_a_name_of_the_zone() -> None:
    proof = proved(Delegated(POLICY))
    assert [(row.id, row.why) for row in proof.red] == []
    assert {row.id for row in proof.rows} == {probe.id for probe in PROBES}
    assert proof.answer(1)[0] == "no"


@pytest.mark.gvisor
def test_whoever_gets_out_is_seen_there(monkeypatch: pytest.MonkeyPatch) -> None:
    host_network(monkeypatch)
    rows = {row.id: row for row in proved(Delegated(POLICY)).rows}
    assert rows["dns.canary.server"].verdict is Verdict.REACHED, rows["dns.canary.server"].why
    assert ZONE in rows["dns.canary.server"].why


@pytest.mark.gvisor
def test_a_zone_that_is_not_delegated_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names below ``example`` lead nowhere."""

    class Undelegated(Here):
        @asynccontextmanager
        async def zone(self) -> AsyncIterator[Canary]:
            async with canary(ZONE, "127.0.0.1", 0, by_this_machine) as made:
                yield made

    monkeypatch.setattr(module, "CONTROL_SECONDS", 0.5)
    proof = proved(Undelegated(POLICY))
    assert {row.verdict for row in proof.rows} == {Verdict.INCONCLUSIVE}
    assert "docs/prove.md" in proof.rows[0].why


async def test_a_question_is_whose_label_it_has_whenever_it_comes() -> None:
    first, second = PROBES[:2]
    async with delegated() as made:
        assert await made.alive() == ""
        assert made.names.asked == [], "the control leaves nothing"
        made.watch()
        early = str(made.marks["canary_name"])
        assert made.contacts(first) == ()
        made.watch()
        await ask(made.place, question(f"data.{early}"))
        await ask(made.place, question("somebody-else.canary.example"))
        assert made.contacts(second) == ()
        assert len(made.late(first)) == 1
        assert made.strays() == ()


@pytest.mark.parametrize(
    "said", [b"", b"x", b"\0" * 12, b"\0" * 12 + b"\x3f", b"\0" * 12 + b"\3\xff\xff\xff\0\0\1\0\1", b"\xff" * 600]
)
async def test_what_is_no_question_stops_nothing(said: bytes) -> None:
    async with delegated() as made:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.sendto(said, made.place)
        answer = await ask(made.place, question(f"a.{ZONE}"))
        assert answer.endswith(socket.inet_aton(module.ANSWER))
        assert await made.alive() == ""


async def test_a_port_that_is_taken_is_an_error_with_a_remedy() -> None:
    async with delegated() as made:
        with pytest.raises(HostError, match="can listen on") as refused:
            async with canary(ZONE, *made.place):
                pass
        assert "--canary-listen" in str(refused.value.remedy)


@pytest.mark.parametrize("text", ["", "example", "a b.example", "1.2.3.4", "*.example.com", "x" * 300])
def test_a_domain_is_one_that_could_be_delegated(text: str) -> None:
    with pytest.raises(InputError, match="domain"):
        domain_of(text)
    assert domain_of("Canary.EXAMPLE.com.") == "canary.example.com"
