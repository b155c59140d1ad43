"""Who comes late, says another's mark or hides behind an allowed visit is seen all the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dayfly.prove.bait import Bait, bait
from dayfly.prove.inside.leaks import value_in_files
from dayfly.prove.internet import PUBLIC, Names
from dayfly.prove.marks import TOKEN, token_of
from dayfly.prove.probe import Expected, Probe, Property, Severity
from dayfly.prove.services import Services
from dayfly.prove.world import TCP, World
from dayfly.prove.world import world as real_world

FIRST = Probe("network.first", "Reach something", Property.NETWORK, Severity.CRITICAL, "network.tcp")
SECOND = replace(FIRST, id="network.second")
LISTED, DENIED = f"{PUBLIC[0]} port {TCP}", f"{PUBLIC[1]} port {TCP}"


def watched(what: Callable[[Bait], Awaitable[None]]) -> None:
    async def within() -> None:
        async with bait() as prey:
            assert await prey.alive() == ""
            await what(prey)

    asyncio.run(within())


async def visit(prey: Bait, said: bytes) -> None:
    """Somebody comes, and has been heard to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", prey.marks["tcp_port"])
    writer.write(said)
    writer.write_eof()
    assert await reader.read() == prey.secrets["the host's server"].encode()
    writer.close()


def test_what_arrives_while_the_next_one_is_tried_is_the_first_ones() -> None:
    async def late(prey: Bait) -> None:
        prey.watch()
        assert prey.contacts(FIRST) == ()
        prey.watch()
        await visit(prey, token_of(FIRST).encode())
        assert prey.contacts(SECOND) == ()
        assert prey.late(FIRST) == ("TCP on loopback",)
        assert prey.late(SECOND) == ()

    watched(late)


@pytest.mark.parametrize("said", [b"", b"hello", TOKEN.encode(), f"{TOKEN}0123456789abcdef/".encode()])
def test_who_says_nothing_or_nobodys_mark_counts_against_whoever_is_tried(said: bytes) -> None:
    async def unknown(prey: Bait) -> None:
        prey.watch()
        await visit(prey, said)
        assert prey.contacts(FIRST) == ("TCP on loopback",)

    watched(unknown)


def test_a_visit_that_ends_later_hides_no_other_one() -> None:
    """Its words come when the next probe has visits of its own."""

    async def overlapping(prey: Bait) -> None:
        prey.watch()
        slow, writer = await asyncio.open_connection("127.0.0.1", prey.marks["tcp_port"])
        await slow.readexactly(1)
        assert prey.contacts(FIRST) == ("TCP on loopback",)
        prey.watch()
        await visit(prey, b"the second's")
        writer.write(token_of(FIRST).encode())
        writer.write_eof()
        await slow.read()
        writer.close()
        assert prey.contacts(SECOND) == ("TCP on loopback",)

    watched(overlapping)


def test_who_comes_after_the_last_probe_is_a_stray() -> None:
    async def after(prey: Bait) -> None:
        prey.watch()
        assert prey.contacts(FIRST) == ()
        await visit(prey, b"")
        assert prey.strays() == ("TCP on loopback",)
        assert await prey.alive() == ""
        assert prey.strays() == ("TCP on loopback",), "the host's own visits are none, and take none along"

    watched(after)


@pytest.mark.parametrize("dead", [None, "a server", "the name server"])
def test_each_server_of_the_world_has_seen_a_visitor_or_nothing_is_shown(
    dead: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def within() -> str:
        async with real_world("secret") as elsewhere:
            assert await elsewhere.alive() == ""
            assert (elsewhere.visits, elsewhere.names.asked) == ([], []), "those of the proof itself are not kept"
            if dead is not None:
                monkeypatch.setattr("dayfly.prove.world.ALIVE_SECONDS", 0.5)
            if dead == "a server":
                elsewhere.servers[-2].close()
            if dead == "the name server":
                elsewhere.names.close()
            return await elsewhere.alive()

    said = asyncio.run(within())
    assert said == "" if dead is None else "does not see who comes" in said


def world() -> World:
    made: Any = None
    return World(made, Names(), "secret", Path("/nowhere"), Services("secret"))


def test_an_allowed_visit_hides_none_to_another_host() -> None:
    elsewhere, probe = world(), replace(FIRST, comes=1)
    elsewhere.watch()
    elsewhere.visits.append(LISTED)
    assert elsewhere.contacts(probe) == ()
    elsewhere.watch()
    elsewhere.visits.append(DENIED)
    assert elsewhere.contacts(probe) == (DENIED,), "one visit was allowed, and not this one"
    elsewhere.visits += [LISTED, LISTED]
    assert elsewhere.contacts(probe) == (DENIED, LISTED, LISTED)


def test_a_probe_that_must_work_has_not_worked_by_anothers_visit() -> None:
    elsewhere, allowed = world(), replace(FIRST, expected=Expected.ALLOWED, asks=("listed.example.com",))
    elsewhere.watch()
    elsewhere.visits.append(DENIED)
    elsewhere.names.asked += ["listed.example.com", "denied.example.net"]
    assert elsewhere.contacts(allowed) == ()
    elsewhere.watch()
    assert elsewhere.strays() == (DENIED, "a query for denied.example.net"), "and that one is not forgotten"


def test_what_comes_after_the_last_probe_in_the_world_is_a_stray() -> None:
    elsewhere = world()
    elsewhere.watch()
    assert elsewhere.contacts(FIRST) == ()
    elsewhere.visits.append(DENIED)
    elsewhere.names.asked.append("denied.example.net")
    assert elsewhere.strays() == (DENIED, "a query for denied.example.net")
    elsewhere.watch()
    assert elsewhere.strays() == (DENIED, "a query for denied.example.net"), "also when another batch begins"


def test_a_value_is_looked_for_in_files_and_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "told").write_text("a secret value")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    assert value_in_files("eulav terces", [str(tmp_path)]) == (3, [str(tmp_path / "told")])
    assert value_in_files("eulav rehto", [str(tmp_path)]) == (3, [])
